"""Each step of an engine, as it was predicted and when it ran, in virtual time."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TextIO

from warpserve.predictors.batch import Batch, Sampling
from warpserve.predictors.predictor import Lookups, Prediction

FOLDER = "WARPSERVE_STEP_LOG"

_ENCODE = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode


class StepLog:
    """JSON lines, or nothing where nobody asked for them.

    A line has ``start_ns``, ``end_ns`` (the members' CLOCK_MONOTONIC), ``duration_ns``,
    ``provenance``, ``padded_tokens``, and of each request its id in ``request_ids`` and
    [new tokens, cached tokens, is prefill] in ``requests``. ``loras`` is the number of adapters in
    the batch, if any; ``sampling`` how tokens are chosen, if not greedily; ``eager`` is true where
    kernels are launched one by one; ``shared_tokens`` are those of all replicas that share the
    experts, where they are not as many in each. Where a step was extrapolated, ``outside`` says
    what of.
    ``lookups`` are the predictor's hits and misses so far, if it looks anything up.
    """

    def __init__(self, file: TextIO | None, lookups: Callable[[], Lookups] | None = None) -> None:
        self._file = file
        self._lookups = lookups

    @classmethod
    def of_session(cls, worker: str, lookups: Callable[[], Lookups] | None = None) -> StepLog:
        """In $WARPSERVE_STEP_LOG, if that is set."""
        folder = os.environ.get(FOLDER)
        return cls(None) if folder is None else cls.in_folder(Path(folder), worker, lookups)

    @classmethod
    def in_folder(
        cls, folder: Path, worker: str = "0", lookups: Callable[[], Lookups] | None = None
    ) -> StepLog:
        """A new file, ``steps-WORKER.jsonl``. ``worker``: its name, the same in each run.

        A second worker of that name, of another engine, has ``steps-WORKER.2.jsonl``.
        """
        for number in itertools.count(1):
            name = worker if number == 1 else f"{worker}.{number}"
            with contextlib.suppress(FileExistsError):
                return cls((folder / f"steps-{name}.jsonl").open("x", buffering=1), lookups)
        raise AssertionError

    def write(
        self,
        batch: Batch,
        request_ids: Sequence[str],
        prediction: Prediction,
        start_ns: int,
        end_ns: int,
    ) -> None:
        if self._file is None:
            return
        step: dict[str, Any] = {
            "start_ns": start_ns,
            "end_ns": end_ns,
            "duration_ns": prediction.duration_ns,
            "provenance": prediction.provenance.value,
            "padded_tokens": batch.padded_tokens,
            "request_ids": request_ids,
            "requests": batch.requests,
        }
        if batch.loras:
            step["loras"] = batch.loras
        if batch.sampling is not Sampling.GREEDY:
            step["sampling"] = batch.sampling.label
        if batch.is_eager:
            step["eager"] = True
        if batch.shared_tokens is not None:
            step["shared_tokens"] = batch.shared_tokens
        if prediction.outside is not None:
            step["outside"] = prediction.outside
        if self._lookups is not None and any(lookups := self._lookups()):
            step["lookups"] = lookups
        self._file.write(_ENCODE(step) + "\n")

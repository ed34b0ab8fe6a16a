"""Ranks that take each step together: attention in data-parallel ranks that share their experts.

The step takes as long for all as for the slowest, and begins when the last is there.
"""

from __future__ import annotations

import time
from typing import Any

import torch

from warpserve.predictors.predictor import Prediction


class LockStepError(RuntimeError):
    """Ranks that must take a step together do not."""


class LockStep:
    """What one rank knows of the others' steps."""

    def __init__(self, group: Any) -> None:
        """``group``: a process group on the CPU; None: this rank's steps are its own."""
        self._group = group
        self._free_ns = 0

    @property
    def is_shared(self) -> bool:
        return self._group is not None

    def agree(self, prediction: Prediction) -> tuple[int, Prediction]:
        """What this rank waits before its step, in ns; and how long the step takes."""
        if self._group is None:
            return 0, prediction
        free_ns = self._free_ns
        start_ns, agreed = self.start(prediction)
        return start_ns - max(free_ns, time.monotonic_ns()), agreed

    def start(self, prediction: Prediction) -> tuple[int, Prediction]:
        """When all begin, by the members' CLOCK_MONOTONIC in ns; and how long the step takes."""
        ready_ns = max(self._free_ns, time.monotonic_ns())
        start_ns, duration_ns = self.largest([ready_ns, prediction.duration_ns])
        self._free_ns = start_ns + duration_ns
        return start_ns, prediction._replace(duration_ns=duration_ns)

    def largest(self, values: list[int]) -> list[int]:
        """Of all ranks, each. Raises LockStepError where one does not come."""
        tensor = torch.tensor(values, dtype=torch.int64)
        try:
            torch.distributed.all_reduce(tensor, torch.distributed.ReduceOp.MAX, group=self._group)
        except RuntimeError as error:
            raise LockStepError(
                "warpserve: another data-parallel rank has not come to this step: it has ended, or "
                "takes no step while it has no requests. On GPUs the experts would wait for good"
            ) from error
        return [int(value) for value in tensor.tolist()]

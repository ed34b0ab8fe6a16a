"""Decode steps of real runs of vLLM: tests/data/llmservingsim/bench.

Their logs have tokens a second and requests under way, once a second. In seconds without prefills a
step gives each request a token, so it lasts requests / (tokens a second): with the host, with
everything. The contexts are those of the requests that were decoding, from their timestamps.
"""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from tests.benchmarks.predictors.errors import HEADINGS, Errors
from warpserve.bench.models import model_named
from warpserve.predictors.batch import Batch, RequestStep
from warpserve.predictors.captured import padded_tokens
from warpserve.predictors.deployment import Deployment
from warpserve.predictors.from_catalogue import hardware_of
from warpserve.predictors.spec import predictor_of

_RUNS = Path(__file__).parents[2] / "data" / "llmservingsim" / "bench"
_CASES = (
    ("RTX4090", "rtx-4090", ("analytic",)),
    ("RTXPRO6000", "rtx-pro-6000", ("aiconfigurator", "analytic")),
)
_MODEL = "llama-3.1-8b"
_LEAST_AGREEMENT = 0.9


class _Request(NamedTuple):
    input_tokens: int
    output_tokens: int
    first_s: float
    last_s: float

    def context_at(self, time_s: float) -> int | None:
        """None before its first token and after its last."""
        if not self.first_s < time_s < self.last_s:
            return None
        share = (time_s - self.first_s) / (self.last_s - self.first_s)
        return self.input_tokens + round(share * self.output_tokens)


def decode_steps(folder: Path) -> Iterator[tuple[Batch, float]]:
    """Batches, and how long their steps took, in ns."""
    requests = _requests(folder / "requests.jsonl.gz")
    with (folder / "timeseries.csv").open(newline="") as file:
        seconds = [{name: float(v) for name, v in row.items()} for row in csv.DictReader(file)]
    for before, now in pairwise(seconds):
        is_pure = before["prompt_throughput"] == now["prompt_throughput"] == 0
        is_steady = before["running"] == now["running"] > 0
        if not (is_pure and is_steady):
            continue
        middle_s = now["t"] - 0.5
        found = [each.context_at(middle_s) for each in requests]
        contexts = [context for context in found if context is not None]
        # The log's clock begins at about the first arrival: skip where that shows.
        if not _LEAST_AGREEMENT <= len(contexts) / now["running"] <= 1 / _LEAST_AGREEMENT:
            continue
        steps = tuple(RequestStep(1, context, is_prefill=False) for context in contexts)
        duration_ns = now["running"] / now["gen_throughput"] * 1e9
        yield Batch(steps, padded_tokens(len(steps))), duration_ns


def markdown() -> Iterator[str]:
    yield f"| GPU | predictor | {HEADINGS} |"
    yield "|---|---|---|---|---|---|"
    for folder, gpu, kinds in _CASES:
        deployment = Deployment(model_named(_MODEL).config(), hardware_of(gpu), "vllm", "0.24.0")
        steps = list(decode_steps(_RUNS / folder))
        for kind in kinds:
            predictor = predictor_of(kind, deployment)
            errors = [
                predictor.predict(batch).duration_ns / measured_ns - 1
                for batch, measured_ns in steps
            ]
            yield f"| {gpu} | {kind} | {Errors.of(errors).cells()} |"


def _requests(path: Path) -> list[_Request]:
    with gzip.open(path, "rt") as file:
        rows = [json.loads(line) for line in file]
    start_s = min(row["queued_ts"] for row in rows)
    return [
        _Request(
            row["input_toks"],
            row["output_toks"],
            row["first_token_ts"] - start_s,
            row["last_token_ts"] - start_s,
        )
        for row in rows
    ]

"""Steps put together from kernels that were timed inside vLLM.

tests/data/llmservingsim/profiles has the kernels of one layer on a grid; a step of so many layers
is their sum. Left out: collectives (there is one GPU), the host, and sampling, which predictors
have.
"""

from __future__ import annotations

import csv
import gzip
import random
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.benchmarks.predictors.errors import HEADINGS, Errors
from warpserve.bench.models import model_named
from warpserve.predictors.batch import Batch, RequestStep
from warpserve.predictors.deployment import Deployment
from warpserve.predictors.from_catalogue import hardware_of
from warpserve.predictors.learned.fit import fit
from warpserve.predictors.learned.predictor import Learned
from warpserve.predictors.spec import predictor_of

PROFILES = Path(__file__).parents[2] / "data" / "llmservingsim" / "profiles"
_CASES = (
    ("RTX4090", "Llama-3.1-8B", "rtx-4090", "llama-3.1-8b", ("analytic",)),
    ("RTXPRO6000", "Llama-3.1-8B", "rtx-pro-6000", "llama-3.1-8b", ("aiconfigurator", "analytic")),
    ("RTXPRO6000", "Qwen3-32B", "rtx-pro-6000", "qwen3-32b", ("aiconfigurator", "analytic")),
)
_ONCE = ("embedding", "final_layernorm")
_TWICE_A_LAYER = ("layernorm",)
_MOST_CONTEXT_TOKENS = 200_000
"""Of all requests of a step: beyond, no card of 96 GB has room for their keys and values."""


class Step(NamedTuple):
    kind: str
    batch: Batch
    measured_ns: float


class Profile:
    def __init__(self, folder: Path, layers: int) -> None:
        self._layers = layers
        self._dense = _curves(folder / "dense.csv.gz", "tokens")
        self._per_request = _curves(folder / "per_sequence.csv.gz", "sequences")
        self._attention = folder / "attention.csv.gz"

    def steps(self) -> Iterator[Step]:
        """On the points at which attention was timed and the rest is known."""
        most_tokens = max(self._dense["qkv_proj"])
        for row in _rows(self._attention):
            new, cached = int(row["prefill_chunk"]), int(row["kv_prefill"])
            count, context = int(row["n_decode"]), int(row["kv_decode"])
            tokens, requests = new + count, count + (new > 0)
            if tokens > most_tokens or count * context + cached > _MOST_CONTEXT_TOKENS:
                continue
            steps = [RequestStep(1, max(context - 1, 0), is_prefill=False)] * count
            if new:
                steps.append(RequestStep(new, cached, is_prefill=True))
            measured_us = self._layers * float(row["time_us"]) + self._without_attention_us(
                tokens, requests
            )
            kind = "mixed" if new and count else "prefill" if new else "decode"
            yield Step(kind, Batch(tuple(steps), tokens), measured_us * 1e3)

    def _without_attention_us(self, tokens: int, requests: int) -> float:
        total = _nearest(self._per_request["lm_head"], requests)
        for layer, curve in self._dense.items():
            count = 1 if layer in _ONCE else self._layers * (1 + (layer in _TWICE_A_LAYER))
            total += count * _nearest(curve, tokens)
        return total


def markdown() -> Iterator[str]:
    yield f"| GPU, model | predictor | steps | {HEADINGS} |"
    yield "|---|---|---|---|---|---|---|"
    for folder, model, gpu, name, kinds in _CASES:
        config = model_named(name).config()
        profile = Profile(PROFILES / folder / model, config["num_hidden_layers"])
        deployment = Deployment(config, hardware_of(gpu), "vllm", "0.24.0")
        steps = list(profile.steps())
        for kind in kinds:
            predictor = predictor_of(kind, deployment)
            errors: dict[str, list[float]] = defaultdict(list)
            for step in steps:
                predicted_ns = predictor.predict(step.batch).duration_ns
                errors[step.kind].append(predicted_ns / step.measured_ns - 1)
            for step_kind in ("decode", "prefill", "mixed"):
                cells = Errors.of(errors[step_kind]).cells()
                yield f"| {gpu}, {name} | {kind} | {step_kind} | {cells} |"
        yield f"| {gpu}, {name} | learned | all | {_learned(steps).cells()} |"


def _learned(steps: list[Step]) -> Errors:
    """From a half of the steps, at the other."""
    shuffled = random.Random(0).sample(steps, len(steps))
    known, others = shuffled[::2], shuffled[1::2]
    predictor = Learned(fit([(step.batch, round(step.measured_ns)) for step in known], "profile"))
    return Errors.of(
        [predictor.predict(step.batch).duration_ns / step.measured_ns - 1 for step in others]
    )


def _curves(path: Path, axis: str) -> dict[str, dict[int, float]]:
    """By layer, microseconds over an axis, in order."""
    curves: dict[str, dict[int, float]] = defaultdict(dict)
    for row in _rows(path):
        curves[row["layer"]][int(row[axis])] = float(row["time_us"])
    return {layer: dict(sorted(curve.items())) for layer, curve in curves.items()}


def _rows(path: Path) -> Iterator[dict[str, str]]:
    with gzip.open(path, "rt", newline="") as file:
        yield from csv.DictReader(file)


def _nearest(curve: dict[int, float], x: int) -> float:
    """At the next point: grids are dense, and kernels work on whole tiles."""
    xs = list(curve)
    return curve[xs[min(bisect_left(xs, x), len(xs) - 1)]]

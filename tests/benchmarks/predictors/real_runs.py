"""Decode steps of real runs of vLLM: tests/data/llmservingsim/bench.

Their logs have tokens a second and requests under way, once a second. In seconds without prefills a
step gives each request a token, so it lasts requests / (tokens a second): with the host, with
everything. The contexts are those of the requests that were decoding, from their timestamps.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from tests.benchmarks.predictors.errors import HEADINGS, Errors
from tests.benchmarks.predictors.profiles import profile_spec
from warpserve.bench.models import model_named
from warpserve.bench.real.read import read_run
from warpserve.bench.real.schema import Request
from warpserve.predictors.batch import Batch, RequestStep
from warpserve.predictors.captured import padded_tokens
from warpserve.predictors.deployment import Deployment
from warpserve.predictors.from_catalogue import hardware_of
from warpserve.predictors.spec import predictor_of

_RUNS = Path(__file__).parents[2] / "data" / "llmservingsim" / "bench"
_CASES = (
    ("RTX4090", "rtx-4090", ("analytic", "profile")),
    ("RTXPRO6000", "rtx-pro-6000", ("aiconfigurator", "analytic", "profile")),
)
_MODEL = "llama-3.1-8b"
_LEAST_AGREEMENT = 0.9


def decode_steps(folder: Path) -> Iterator[tuple[Batch, float]]:
    """Batches, and how long their steps took, in ns."""
    run = read_run(folder)
    for before, now in pairwise(run.series):
        is_pure = before.prompt_tokens_per_s == now.prompt_tokens_per_s == 0
        is_steady = before.running == now.running
        if not (is_pure and is_steady and now.running and now.output_tokens_per_s):
            continue
        found = [context_at(request, now.time_s - 0.5) for request in run.requests]
        contexts = [context for context in found if context is not None]
        # The samples' clock is the requests' but for some ms: skip where that shows.
        if not _LEAST_AGREEMENT <= len(contexts) / now.running <= 1 / _LEAST_AGREEMENT:
            continue
        steps = tuple(RequestStep(1, context, is_prefill=False) for context in contexts)
        duration_ns = now.running / now.output_tokens_per_s * 1e9
        yield Batch(steps, padded_tokens(len(steps))), duration_ns


def token_instants_s(request: Request) -> tuple[float, float]:
    """Of the first token and the last."""
    queued_s, ttft_s, latency_s = request.queued_s, request.ttft_s, request.latency_s
    assert queued_s is not None
    assert ttft_s is not None
    assert latency_s is not None
    return queued_s + ttft_s, queued_s + latency_s


def context_at(request: Request, time_s: float) -> int | None:
    """None before its first token and after its last."""
    first_s, last_s = token_instants_s(request)
    if not first_s < time_s < last_s:
        return None
    share = (time_s - first_s) / (last_s - first_s)
    return (request.input_tokens or 0) + round(share * (request.output_tokens or 0))


def markdown() -> Iterator[str]:
    yield f"| GPU | predictor | {HEADINGS} |"
    yield "|---|---|---|---|---|---|"
    for folder, gpu, kinds in _CASES:
        deployment = Deployment(model_named(_MODEL).config(), hardware_of(gpu), "vllm", "0.24.0")
        steps = list(decode_steps(_RUNS / folder))
        for kind in kinds:
            spec = profile_spec(folder) if kind == "profile" else kind
            predictor = predictor_of(spec, deployment)
            errors = [
                predictor.predict(batch).duration_ns / measured_ns - 1
                for batch, measured_ns in steps
            ]
            yield f"| {gpu} | {kind} | {Errors.of(errors).cells()} |"

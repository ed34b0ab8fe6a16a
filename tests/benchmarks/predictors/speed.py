"""What a prediction costs the engine's process."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Iterator
from dataclasses import replace

from tests.benchmarks.predictors.profiles import profile_spec
from warpserve.bench.models import model_named
from warpserve.predictors.batch import Batch, RequestStep
from warpserve.predictors.captured import padded_tokens
from warpserve.predictors.deployment import Deployment
from warpserve.predictors.from_catalogue import hardware_of
from warpserve.predictors.learned.fit import fit
from warpserve.predictors.learned.predictor import Learned
from warpserve.predictors.predictor import Predictor
from warpserve.predictors.replay import Replay
from warpserve.predictors.spec import predictor_of

_REQUESTS = 64
_STEPS = 500
_RECORDED = 10_000
_PREDICTORS = ("constant:10ms", "aiconfigurator", "aiconfigurator:prefill_scale=1.1", "analytic")


def markdown() -> Iterator[str]:
    yield f"| predictor | {_REQUESTS} decodes | {_REQUESTS - 1} decodes and a chunk |"
    yield "|---|---|---|"
    for name, predictor in _predictors().items():
        decodes = [_batch(_REQUESTS, 1000 + step, 0) for step in range(_STEPS)]
        mixed = [_batch(_REQUESTS - 1, 1000 + step, 512 + step) for step in range(_STEPS)]
        times = (_median_us(predictor, batches) for batches in (decodes, mixed))
        yield f"| {name} | {' | '.join(f'{microseconds:.0f} us' for microseconds in times)} |"


def _predictors() -> dict[str, Predictor]:
    config = model_named("llama-3.1-8b").config()
    deployment = Deployment(config, hardware_of("h100-sxm"), "vllm", "0.24.0")
    found: dict[str, Predictor] = {spec: predictor_of(spec, deployment) for spec in _PREDICTORS}
    of_profile = replace(deployment, hardware=hardware_of("rtx-pro-6000"))
    found["profile"] = predictor_of(profile_spec("RTXPRO6000"), of_profile)
    recorded = [
        (batch, found["analytic"].predict(batch)) for batch in map(_recorded, range(_RECORDED))
    ]
    found["learned"] = Learned(fit([(b, p.duration_ns) for b, p in recorded], "analytic"))
    found[f"replay of {_RECORDED:,} steps, missed"] = Replay(recorded)
    return found


def _recorded(index: int) -> Batch:
    draw = random.Random(index)
    new_tokens = draw.choice([0, draw.randrange(1, 2_000)])
    return _batch(draw.randrange(1, _REQUESTS + 1), draw.randrange(10, 8_000), new_tokens)


def _batch(count: int, context: int, new_tokens: int) -> Batch:
    steps = [RequestStep(1, context + 10 * index, is_prefill=False) for index in range(count)]
    if new_tokens:
        steps.append(RequestStep(new_tokens, 0, is_prefill=True))
    return Batch(tuple(steps), padded_tokens(count + new_tokens))


def _median_us(predictor: Predictor, batches: list[Batch]) -> float:
    times = []
    for batch in batches:
        begin = time.perf_counter_ns()
        predictor.predict(batch)
        times.append((time.perf_counter_ns() - begin) / 1e3)
    return statistics.median(times)

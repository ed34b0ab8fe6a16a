"""Steps put together from kernels that were timed inside vLLM.

tests/data/llmservingsim/profiles has the kernels of one layer on a grid; a step of so many layers
is their sum. Left out: collectives (there is one GPU), the host, and sampling, which predictors
have.
"""

from __future__ import annotations

import random
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
from warpserve.predictors.profile.files import read_profile
from warpserve.predictors.profile.grid import Steps
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


def profile_spec(gpu: str) -> str:
    """Of a predictor: Llama-3.1-8B's profile on the card of this name."""
    return f"profile:{PROFILES / gpu / 'Llama-3.1-8B'}"


class Step(NamedTuple):
    kind: str
    batch: Batch
    measured_ns: float


class Profile:
    def __init__(self, folder: Path, layers: int) -> None:
        profile = read_profile(str(folder), tensor_parallel=1)
        self._layers = layers
        self._dense = {layer: Steps(points) for layer, points in profile.dense.items()}
        self._logits = Steps(profile.per_request["lm_head"])
        self._attention = profile.attention

    def steps(self) -> Iterator[Step]:
        """On the points at which attention was timed and the rest is known."""
        most_tokens = self._dense["qkv_proj"].last
        for (new, cached, count, context), attention_ns in self._attention.items():
            tokens, requests = new + count, count + (new > 0)
            if tokens > most_tokens or count * context + cached > _MOST_CONTEXT_TOKENS:
                continue
            steps = [RequestStep(1, max(context - 1, 0), is_prefill=False)] * count
            if new:
                steps.append(RequestStep(new, cached, is_prefill=True))
            without_ns = self._without_attention_ns(tokens, requests)
            kind = "mixed" if new and count else "prefill" if new else "decode"
            measured_ns = self._layers * attention_ns + without_ns
            yield Step(kind, Batch(tuple(steps), tokens), measured_ns)

    def _without_attention_ns(self, tokens: int, requests: int) -> float:
        total = self._logits.at(requests)
        for layer, curve in self._dense.items():
            count = 1 if layer in _ONCE else self._layers * (1 + (layer in _TWICE_A_LAYER))
            total += count * curve.at(tokens)
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

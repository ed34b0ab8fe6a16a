"""Which real runs are replayed, with which predictors, and how good they are to be."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from tests.benchmarks.predictors.profiles import profile_spec
from warpserve.bench.models import model_named
from warpserve.predictors.deployment import Deployment
from warpserve.predictors.from_catalogue import hardware_of

_RUNS = Path(__file__).parents[2] / "data" / "llmservingsim" / "bench"


PROFILES = "profile"
"""A predictor: kernels timed inside vLLM on that card (tests/data/llmservingsim/profiles)."""


class Case(NamedTuple):
    """A real run and what predicts its steps."""

    real: Path
    gpu: str
    predictor: str
    """A spec without options, or ``PROFILES``."""

    @property
    def name(self) -> str:
        return f"{self.gpu}, {self.predictor}"

    def spec(self, options: str) -> str:
        """``options``: such as ``scale=1.02``, or none."""
        if self.predictor != PROFILES:
            return ":".join(filter(None, (self.predictor, options)))
        return ",".join(filter(None, (profile_spec(self.real.name), options)))


def deployment_of(case: Case) -> Deployment:
    config = model_named("llama-3.1-8b").config()
    return Deployment(config, hardware_of(case.gpu), "vllm", "0.19.0")


CASES = (
    Case(_RUNS / "RTXPRO6000", "rtx-pro-6000", "aiconfigurator"),
    Case(_RUNS / "RTXPRO6000", "rtx-pro-6000", PROFILES),
    Case(_RUNS / "RTXPRO6000", "rtx-pro-6000", "analytic"),
    Case(_RUNS / "RTX4090", "rtx-4090", "analytic"),
    Case(_RUNS / "RTX4090", "rtx-4090", PROFILES),
)

BARS_UNFITTED = {"tpot.mean": 0.05}
BARS_FITTED = {
    "tpot.mean": 0.005,
    "tpot.p99": 0.005,
    "ttft.mean": 0.005,
    "ttft.p50": 0.015,
    "ttft.p99": 0.01,
    "output_tokens": 0.001,
    "makespan": 0.001,
    "running": 0.02,
    "waiting": 0.02,
}
SHOWN = (
    *("tpot.mean", "tpot.p50", "tpot.p90", "tpot.p99"),
    *("ttft.mean", "ttft.p50", "ttft.p90", "ttft.p99"),
    *("latency.mean", "latency.p99", "makespan", "output_tokens"),
    *("running", "waiting", "kv_usage"),
)
"""Figures, by the names that `compare --max-error` has for them."""

"""Experts with weights of 4 bits under Marlin's kernels: vLLM's --moe-backend marlin.

What vLLM takes by itself for gpt-oss, and aiconfigurator's tables have, are Triton's kernels on
Hopper and TRT-LLM's on large Blackwells. Marlin's turn weights into 16 bits as they multiply. With
few tokens all of them wait for memory; with many, Marlin's reach a smaller part of the rate of the
tensor cores. On other GPUs Marlin's are what vLLM takes by itself.
"""

from __future__ import annotations

from typing import NamedTuple

from warpserve.predictors.deployment import MARLIN, Deployment
from warpserve.predictors.model_shape import Experts, model_shape


class _Rates(NamedTuple):
    """Parts of the rate in bf16, at 8,192 tokens."""

    marlin: float
    own: float
    """Of gpt-oss's 128 experts under the kernels that the tables have."""


# aiconfigurator-core 0.12.0, moe_perf of vllm 0.24.0: Kimi-K2's experts (int4) under Marlin, less
# the eighth that gpt-oss's lose against them on L40S and RTX PRO 6000, where both are Marlin's.
_RATES = {"9.": _Rates(0.202, 0.417), "10.": _Rates(0.095, 0.224)}
"""By the beginning of the compute capability."""


def compute_efficiency(deployment: Deployment) -> float | None:
    """The part of the rate that a deployment's experts reach; None where it does not ask for them,
    or the GPU's own kernels are the same.
    """
    rates = _rates_of(deployment)
    return None if rates is None else rates.marlin


def more_ns(deployment: Deployment, tokens: int) -> float:
    """Over the tables' kernels, of a step with so many tokens, all layers of the stage together."""
    experts = model_shape(deployment.config).experts
    rates = _rates_of(deployment)
    if experts is None or rates is None:
        return 0.0
    rate = deployment.hardware.flops["bf16"]
    operations = _operations(deployment, experts, tokens)
    return operations * (1 / rates.marlin - 1 / rates.own) / rate * 1e9


def _rates_of(deployment: Deployment) -> _Rates | None:
    is_mxfp4 = deployment.model_weights.experts.name == "mxfp4"
    if deployment.expert_kernels != MARLIN or not is_mxfp4:
        return None
    capability = deployment.hardware.compute_capability
    return next((rates for begin, rates in _RATES.items() if capability.startswith(begin)), None)


def _operations(deployment: Deployment, experts: Experts, tokens: int) -> float:
    """Of one rank: gate, up and down for each of a token's experts."""
    shape = model_shape(deployment.config)
    layers = experts.layers * deployment.stage_layers(shape.layers) / shape.layers
    rows = tokens * deployment.data_parallel * experts.per_token / deployment.expert_ways
    return 2 * 3 * shape.hidden * experts.intermediate * rows * layers

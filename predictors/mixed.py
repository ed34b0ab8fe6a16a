"""Decodes beside prefills: what attention costs in one kernel for both.

FlashAttention 2 works on tiles of 64 rows of queries. When all requests of a step are decodes, the
query heads of a group share a tile; beside a prefill each head of each decode has one to itself,
and 63 of its rows are computed for nothing. Then decodes take as long as these tiles, or as without
prefills if that is longer. Inside vLLM 0.19 on an RTX 4090 and an RTX PRO 6000, many decodes take 2
to 4 times as long as alone (tests/data/llmservingsim/profiles).

Hopper and the large Blackwells run other kernels, of which no such figures are known.
"""

from __future__ import annotations

from warpserve.predictors.deployment import Deployment
from warpserve.predictors.model_shape import GroupedAttention, ModelShape

_TILE_ROWS = 64
_EFFICIENCY = 0.5
"""Of the peak, in such tiles: what fits those kernels best, of the tenths."""
_OTHER_KERNELS = ("9.", "10.")
"""Compute capabilities of Hopper, of B200 and B300 and those of their superchips."""
_CACHE_BYTES = 2
"""FlashAttention 2 reads keys and values in 16 bits only."""


def has_flash_attention_2(deployment: Deployment) -> bool:
    """SGLang has FlashInfer's kernels on these GPUs."""
    is_other = deployment.hardware.compute_capability.startswith(_OTHER_KERNELS)
    is_vllm = deployment.engine == "vllm"
    return is_vllm and not is_other and deployment.kv_cache_bytes == _CACHE_BYTES


def tile_ns(deployment: Deployment, shape: ModelShape) -> float:
    """Of one token of a decode's context beside prefills, in all layers; 0 where it costs no more
    than alone.
    """
    hardware, attention = deployment.hardware, shape.attention
    if not isinstance(attention, GroupedAttention) or not has_flash_attention_2(deployment):
        return 0.0
    heads = max(1, attention.heads // deployment.tensor_parallel)
    # Layers with a window look at few tokens of a long context: they are left out.
    full_share = 1 - shape.sliding_layers / shape.layers
    layers = deployment.stage_layers(shape.layers) * full_share
    operations = 4 * heads * attention.head_width * _TILE_ROWS * layers
    return operations / (hardware.flops["bf16"] * _EFFICIENCY) * 1e9

"""Decodes beside prefills: what attention costs in one kernel for both.

FlashAttention 2 has the query heads of a group share a tile only when all requests of a step are
decodes. Beside a prefill each head reads the keys and values by itself. Inside vLLM 0.19, decodes
then take 1.3 times as long on an RTX PRO 6000 and 1.9 times on an RTX 4090 with 4 heads a group,
and 2.4 times with 8 (medians over the kernels of tests/data/llmservingsim/profiles). Hopper and the
large Blackwells run other kernels, of which no such figures are known: there it is once.
"""

from __future__ import annotations

from warpserve.predictors.hardware import Hardware
from warpserve.predictors.model_shape import GroupedAttention, ModelShape

_FOR_EACH_MORE_HEAD = 0.2
_OTHER_KERNELS = ("9.", "10.")
"""Compute capabilities of Hopper, of B200 and B300 and those of their superchips."""


def decode_factor(hardware: Hardware, shape: ModelShape) -> float:
    """By which attention of decodes takes longer in a step that has prefills, too."""
    attention = shape.attention
    is_other = hardware.compute_capability.startswith(_OTHER_KERNELS)
    if is_other or not isinstance(attention, GroupedAttention):
        return 1.0
    return 1.0 + _FOR_EACH_MORE_HEAD * (attention.heads / attention.kv_heads - 1)

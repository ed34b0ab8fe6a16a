"""Decodes beside prefills: what attention costs in one kernel for both.

FlashAttention 2 works on tiles of 64 rows of queries. When all requests of a step are decodes, the
query heads of a group share a tile; beside a prefill

- each head of each decode has a thread block to itself, which computes 63 of its 64 rows for
  nothing, 128 tokens of context at a time;
- heads of a group read the same keys one after the other: from memory again, where one head's keys
  and values of all decodes are more than the GPU's cache holds;
- each request gets as many thread blocks as the longest prefill has tiles, and most end at once.

Inside vLLM 0.19 on an RTX 4090 and an RTX PRO 6000, many decodes take 2 to 4 times as long as alone
(tests/data/llmservingsim/profiles), which the constants below were found in.

Hopper and the large Blackwells run other kernels, of which no such figures are known.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from warpserve.predictors.deployment import Deployment
from warpserve.predictors.model_shape import GroupedAttention, model_shape

_TILE_ROWS = 64
_TILE_TOKENS = 128
_EFFICIENCY = 0.65
"""Of the peak, on an RTX PRO 6000."""
_EFFICIENCY_AT_HALF_RATE = 0.87
"""On an RTX 4090: better than others by as much as in matrices (analytic/roofline.py)."""
_START_NS = 6_000.0
"""Of a multiprocessor, for a thread block's beginning and end: 5.8 us on one, 6.9 on another."""
_READING = 0.93
"""Of the memory's bandwidth: 128 decodes of 2,048 tokens on an RTX 4090."""
_FITS, _FITS_NOT = 0.8, 1.6
"""Parts of the cache that a head's keys and values take, between which they are lost from it."""
_EMPTY_BLOCK_NS = 270.0
"""Of a multiprocessor, for a thread block without work: 1.5 ns over 188 of them, 1.9 over 128."""
_OTHER_KERNELS = ("9.", "10.")
"""Compute capabilities of Hopper, of B200 and B300 and those of their superchips."""
_CACHE_BYTES = 2
"""FlashAttention 2 reads keys and values in 16 bits only."""

Prefill = tuple[int, int]
"""New and cached tokens of one request."""


def has_flash_attention_2(deployment: Deployment) -> bool:
    """SGLang has FlashInfer's kernels on these GPUs."""
    is_other = deployment.hardware.compute_capability.startswith(_OTHER_KERNELS)
    is_vllm = deployment.engine == "vllm"
    return is_vllm and not is_other and deployment.kv_cache_bytes == _CACHE_BYTES


class Mixed:
    def __init__(self, deployment: Deployment) -> None:
        shape, hardware = model_shape(deployment.config), deployment.hardware
        attention = shape.attention
        self._is_known = isinstance(attention, GroupedAttention) and has_flash_attention_2(
            deployment
        )
        if not isinstance(attention, GroupedAttention):
            return
        heads = max(1, attention.heads // deployment.tensor_parallel)
        # Layers with a window look at few tokens of a long context: they are left out.
        layers = deployment.stage_layers(shape.layers) * (1 - shape.sliding_layers / shape.layers)
        all_heads = heads * layers
        half = hardware.sums_at_half_rate
        rate = hardware.flops["bf16"] * (_EFFICIENCY_AT_HALF_RATE if half else _EFFICIENCY)
        operations = 4 * attention.head_width * _TILE_ROWS * _TILE_TOKENS
        self._head_bytes = 2 * attention.head_width * _CACHE_BYTES
        self._cache_bytes = hardware.l2_bytes
        bandwidth = hardware.memory_bandwidth_bytes_per_s * _READING
        # Of all heads' 128 tokens, decode, thread block without work, token from memory.
        self._tile_ns = all_heads * operations / rate * 1e9
        self._start_ns = all_heads * _START_NS / hardware.multiprocessors
        self._empty_ns = all_heads * _EMPTY_BLOCK_NS / hardware.multiprocessors
        self._read_ns = all_heads * self._head_bytes / bandwidth * 1e9

    def decodes_ns(
        self, prefills: Sequence[Prefill], contexts: Sequence[int], alone_ns: float
    ) -> float:
        """Of a step's decodes, which take ``alone_ns`` where there are no prefills."""
        if not self._is_known:
            return alone_ns
        tokens = sum(contexts)
        pieces = sum(-(-context // _TILE_TOKENS) for context in contexts)
        busy_ns = self._tile_ns * pieces + self._start_ns * len(contexts)
        part = tokens * self._head_bytes / self._cache_bytes
        lost = min(1.0, max(0.0, (part - _FITS) / (_FITS_NOT - _FITS)))
        busy_ns += lost * max(0.0, self._read_ns * tokens - busy_ns)
        tiles = [math.ceil(new / _TILE_ROWS) for new, _ in prefills]
        requests = len(tiles) + len(contexts)
        empty = requests * max(tiles) - sum(tiles) - len(contexts)
        return max(alone_ns, busy_ns) + empty * self._empty_ns

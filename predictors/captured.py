"""The sizes that vLLM pads batches to by default: those of its captured CUDA graphs."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

SIZES = (1, 2, 4, *range(8, 256, 8), *range(256, 513, 16))
"""vllm/config/vllm.py, VllmConfig._set_cudagraph_sizes, of vLLM 0.19 to 0.24."""


def padded_tokens(tokens: int, sizes: Sequence[int] = SIZES) -> int:
    """Larger batches run without a graph, and without padding. ``sizes``: in order."""
    index = bisect_left(sizes, tokens)
    return sizes[index] if index < len(sizes) else tokens

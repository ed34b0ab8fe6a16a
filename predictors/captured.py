"""The sizes that vLLM pads batches to by default: those of its captured CUDA graphs."""

from __future__ import annotations

from bisect import bisect_left

SIZES = (1, 2, 4, *range(8, 256, 8), *range(256, 513, 16))
"""vllm/config/vllm.py, VllmConfig._set_cudagraph_sizes, of vLLM 0.19 to 0.24."""


def padded_tokens(tokens: int) -> int:
    """Larger batches run without a graph, and without padding."""
    return tokens if tokens > SIZES[-1] else SIZES[bisect_left(SIZES, tokens)]

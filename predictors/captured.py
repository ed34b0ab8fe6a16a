"""The sizes that engines pad batches to by default: those of their captured CUDA graphs."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from warpserve.predictors.batch import Launch

SIZES = (1, 2, 4, *range(8, 256, 8), *range(256, 513, 16))
"""vllm/config/vllm.py, VllmConfig._set_cudagraph_sizes, of vLLM 0.19 to 0.24."""
SGLANG_PREFILL_SIZES = (
    *range(4, 33, 4),
    *range(48, 257, 16),
    *range(288, 513, 32),
    *range(576, 1025, 64),
    *range(1280, 4097, 256),
    *range(4608, 8193, 512),
)
"""sglang/srt/arg_groups/cuda_graph_hook.py, generate_prefill_cuda_graph_batch_sizes, of SGLang
0.5.23 with chunks of 8,192 tokens; server_args.py of 0.5.14 has the same.
"""


def padded_tokens(tokens: int, sizes: Sequence[int] = SIZES) -> int:
    """Larger batches run without a graph, and without padding. ``sizes``: in order."""
    index = bisect_left(sizes, tokens)
    return sizes[index] if index < len(sizes) else tokens


def padded_for(launch: Launch, tokens: int) -> int:
    """Eager steps have no graph to fill up."""
    return tokens if launch is Launch.EAGER else padded_tokens(tokens)

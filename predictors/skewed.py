"""Decodes of different lengths: what the longest takes alone, when the others are done.

FlashAttention 2 gives a decode's heads of keys and values a thread block each, and divides contexts
among more blocks only where there would be fewer blocks than 0.8 times twice the multiprocessors
(num_splits_heuristic in vLLM's flash-attention, csrc/flash_attn/flash_api.cpp). Blocks start head
by head, so each request's last one starts when one head's share of the work is left. Requests
that came first have the longest contexts and the first places in a batch, so theirs begin then. One
that takes longer than that share goes on alone, however much bandwidth is free: it loads a tile of
keys, then one of values, and waits for each.

How fast that is was found in vLLM 0.19's steps of decodes alone, between times with and without a
context of 4,000 tokens among others (tests/data/llmservingsim/bench): 2.2 to 2.7 us for 128 tokens
on an RTX PRO 6000, 2.4 us on an RTX 4090.
"""

from __future__ import annotations

from collections.abc import Sequence

from warpserve.predictors.batch import Batch
from warpserve.predictors.deployment import Deployment
from warpserve.predictors.mixed import has_flash_attention_2
from warpserve.predictors.model_shape import GroupedAttention, model_shape

_SPLIT_BELOW = 0.8 * 2
"""Thread blocks for each multiprocessor."""
_BLOCK_BYTES_PER_S = 27e9
"""What one thread block reads by itself: 64 KB, 128 tokens of one head, in 2.4 us."""


class Skewed:
    def __init__(self, deployment: Deployment) -> None:
        shape = model_shape(deployment.config)
        attention = shape.attention
        self._token_ns = 0.0
        """Of one token of context, in one thread block, in all layers."""
        self._unsplit_from = 0.0
        """Requests, with those that fill up a CUDA graph."""
        self._kv_heads = 1
        """Of one rank."""
        if isinstance(attention, GroupedAttention) and has_flash_attention_2(deployment):
            self._kv_heads = attention.kv_heads_of(deployment.tensor_parallel)
            blocks = _SPLIT_BELOW * deployment.hardware.multiprocessors
            self._unsplit_from = blocks / self._kv_heads
            # Layers with a window look at few tokens of a long context: they are left out.
            full_share = 1 - shape.sliding_layers / shape.layers
            layers = deployment.stage_layers(shape.layers) * full_share
            token_bytes = 2 * attention.head_width * deployment.kv_cache_bytes
            self._token_ns = layers * token_bytes / _BLOCK_BYTES_PER_S * 1e9

    def extra_ns(self, batch: Batch, contexts: Sequence[int], alone_ns: float) -> float:
        """Of a step of decodes alone, over ``alone_ns``, which as many take that are alike.

        0 with drafts: then other thread blocks do the work.
        """
        if not self._token_ns or batch.padded_tokens < self._unsplit_from:
            return 0.0
        if batch.new_tokens > len(contexts):
            return 0.0
        head_ns = alone_ns / self._kv_heads
        longest_ns, mean_ns = (
            self._token_ns * tokens for tokens in (max(contexts), sum(contexts) / len(contexts))
        )
        return max(0.0, longest_ns - head_ns) - max(0.0, mean_ns - head_ns)

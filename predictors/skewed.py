"""Decodes of different lengths: what the longest takes alone, when the others are done.

FlashAttention 2 gives a decode's heads of keys and values a thread block each, and divides contexts
among more blocks only where there would be fewer blocks than 0.8 times twice the multiprocessors
(num_splits_heuristic in vLLM's flash-attention, csrc/flash_attn/flash_api.cpp). Blocks start head
by head, so each request's last head is among the last to start. When as much as the mean context is
done there, blocks of longer contexts go on alone: no faster than one multiprocessor computes its
tiles of 64 rows (`mixed`), however much bandwidth is free.

In vLLM 0.19 on an RTX PRO 6000, decodes of 128 ShareGPT requests took 0.7 ms longer when a context
of 4,000 tokens joined ones of up to 2,950 (tests/data/llmservingsim/bench); this says 0.9 ms.
"""

from __future__ import annotations

from collections.abc import Sequence

from warpserve.predictors.deployment import Deployment
from warpserve.predictors.mixed import tile_ns
from warpserve.predictors.model_shape import GroupedAttention, model_shape

_SPLIT_BELOW = 0.8 * 2
"""Thread blocks for each multiprocessor."""


class Skewed:
    def __init__(self, deployment: Deployment) -> None:
        shape = model_shape(deployment.config)
        self._token_ns = 0.0
        """Of one token of context, in one thread block, in all layers."""
        self._unsplit_from = 0.0
        """Requests, with those that fill up a CUDA graph."""
        if isinstance(shape.attention, GroupedAttention):
            ranks, multiprocessors = deployment.tensor_parallel, deployment.hardware.multiprocessors
            heads = max(1, shape.attention.heads // ranks)
            kv_heads = max(1, shape.attention.kv_heads // ranks)
            self._token_ns = tile_ns(deployment, shape) * multiprocessors / heads
            self._unsplit_from = _SPLIT_BELOW * multiprocessors / kv_heads

    def extra_ns(self, contexts: Sequence[int], padded_requests: int) -> float:
        """Of a step of decodes alone, one token each, over decodes that are all like their mean."""
        if not self._token_ns or padded_requests < self._unsplit_from:
            return 0.0
        return self._token_ns * (max(contexts) - sum(contexts) / len(contexts))

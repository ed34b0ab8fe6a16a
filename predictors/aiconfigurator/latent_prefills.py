"""Prefills of latent attention (MLA) under SGLang, on Hopper.

SGLang computes keys and values of each head, as vLLM does, for steps that it has captured no graph
for (above 2,048 tokens) and whose requests have nothing cached, or 8,192 tokens and more of it
together; else it leaves them in latent space
(srt/models/deepseek_common/attention_backend_handler.py, cuda_graph_config in srt/server_args.py).
Its tables on Hopper have the latter alone, which takes three times as many operations: 16 ms a
layer for a prompt of 8,192 tokens and 128 heads on an H100. vLLM's tables have the former: 7.5 ms
with all matrices of the attention. An older table of SGLang's, of its whole attention, says 6.7.
"""

from __future__ import annotations

from warpserve.predictors.deployment import Deployment
from warpserve.predictors.model_shape import LatentAttention, model_shape

_MOST_CAPTURED_TOKENS = 2048
_LEAST_CACHED_TOKENS = 8192
"""SGLANG_CHUNKED_PREFIX_CACHE_THRESHOLD, by default."""


def lack_full_heads(deployment: Deployment) -> bool:
    """Whether a deployment's tables have prefills in latent space alone."""
    return (
        deployment.engine == "sglang"
        and deployment.hardware.is_hopper
        and isinstance(model_shape(deployment.config).attention, LatentAttention)
    )


def has_full_heads(tokens: int, cached_tokens: int) -> bool:
    """Whether SGLang computes keys and values of each head, in a step of prefills with so many
    tokens, behind so many that are cached.
    """
    is_captured = tokens <= _MOST_CAPTURED_TOKENS
    return not is_captured and (cached_tokens == 0 or cached_tokens >= _LEAST_CACHED_TOKENS)

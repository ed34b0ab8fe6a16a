"""Kernels of a layer that the package has neither tables nor formulas of.

Its operators are matrices, attention, two norms and an activation. Engines also rotate queries and
keys, norm them first where the model has it so, and store keys and values; vLLM stores them outside
of the call that was timed as attention (do_kv_cache_update in v1/attention/backends/flash_attn.py
and flashinfer.py of 0.24; the package's collector/vllm/collect_attn.py times `forward`).

LLMServingSim's profiles have two of them (tests/data/llmservingsim): rotating takes 2 to 4 us for
one token; for 2,048 of Llama-3.1-8B, 12 us on an RTX PRO 6000 and 26 on an RTX 4090: what was just
computed comes from the cache. Norms of queries and keys do not gain by it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from warpserve.predictors.aiconfigurator.step_table import Operator
from warpserve.predictors.deployment import Deployment
from warpserve.predictors.model_shape import GroupedAttention, model_shape, norms_heads

_LAUNCH_NS = 3_000.0
_BYTES = 2
_FROM_CACHE = 2.0
_NORMS = 1.1
"""Of the memory's bandwidth."""
_SOURCE = "bytes and a launch"


def unlisted(deployment: Deployment, tokens: Sequence[int]) -> list[Operator]:
    """Over ``tokens``. Those of latent attention are in its tables."""
    shape = model_shape(deployment.config)
    attention = shape.attention
    if not isinstance(attention, GroupedAttention):
        return []
    layers = deployment.stage_layers(shape.layers)
    ranks = deployment.tensor_parallel
    kv_heads = attention.kv_heads_of(ranks)
    heads = attention.heads // ranks + kv_heads
    bandwidth = deployment.hardware.memory_bandwidth_bytes_per_s

    def of(heads_moved: int, rate: float) -> Callable[[int], float]:
        """Each is read and written."""
        token_ns = 2 * _BYTES * heads_moved * attention.head_width / (bandwidth * rate) * 1e9
        return lambda count: layers * (_LAUNCH_NS + count * token_ns)

    kernels = {"rotary embedding": of(heads, _FROM_CACHE)}
    if norms_heads(deployment.config):
        kernels["norms of queries and keys"] = of(heads, _NORMS)
    if deployment.engine == "vllm":
        kernels["storing keys and values"] = of(2 * kv_heads, _FROM_CACHE)
    return [
        Operator(name, _SOURCE, [round(duration_ns(count)) for count in tokens], False)
        for name, duration_ns in kernels.items()
    ]

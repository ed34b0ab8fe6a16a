"""How many parameters a model has, from its configuration.

Counted are the weights that vLLM and SGLang load to serve it: without the layers that predict
further tokens (DeepSeek's), without scales of quantised weights.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Sizes = Mapping[str, int]
"""What a configuration says in numbers."""


def parameter_count(config: Mapping[str, Any]) -> int:
    """``config``: a ``config.json``, as transformers has it. Raises KeyError for an architecture
    that warpserve has no model of."""
    layer = _LAYERS[config["architectures"][0]]
    sizes: Sizes = {key: value for key, value in config.items() if isinstance(value, int)}
    hidden = sizes["hidden_size"]
    embedding = sizes["vocab_size"] * hidden
    ends = embedding if config["tie_word_embeddings"] else 2 * embedding
    return ends + sum(layer(sizes, index) for index in range(sizes["num_hidden_layers"])) + hidden


def _attention(sizes: Sizes) -> int:
    """Grouped-query attention, without what a family adds to it."""
    hidden, heads = sizes["hidden_size"], sizes["num_attention_heads"]
    width = sizes.get("head_dim", hidden // heads)
    return 2 * hidden * width * (heads + sizes["num_key_value_heads"])


def _gated_mlp(hidden: int, intermediate: int) -> int:
    return 3 * hidden * intermediate


def _llama(sizes: Sizes, _: int) -> int:
    hidden = sizes["hidden_size"]
    return _attention(sizes) + _gated_mlp(hidden, sizes["intermediate_size"]) + 2 * hidden


def _qwen3(sizes: Sizes, index: int) -> int:
    return _llama(sizes, index) + 2 * sizes["head_dim"]


def _qwen3_moe(sizes: Sizes, _: int) -> int:
    hidden, experts = sizes["hidden_size"], sizes["num_experts"]
    expert = _gated_mlp(hidden, sizes["moe_intermediate_size"])
    norms = 2 * hidden + 2 * sizes["head_dim"]
    return _attention(sizes) + experts * (expert + hidden) + norms


def _mixtral(sizes: Sizes, _: int) -> int:
    hidden, experts = sizes["hidden_size"], sizes["num_local_experts"]
    expert = _gated_mlp(hidden, sizes["intermediate_size"])
    return _attention(sizes) + experts * (expert + hidden) + 2 * hidden


def _gpt_oss(sizes: Sizes, _: int) -> int:
    """With biases everywhere, and for each head a sink of attention."""
    hidden, intermediate = sizes["hidden_size"], sizes["intermediate_size"]
    heads, experts = sizes["num_attention_heads"], sizes["num_local_experts"]
    biases = sizes["head_dim"] * (heads + 2 * sizes["num_key_value_heads"]) + hidden
    expert = _gated_mlp(hidden, intermediate) + 2 * intermediate + hidden
    return _attention(sizes) + biases + heads + experts * (expert + hidden + 1) + 2 * hidden


def _deepseek_v3(sizes: Sizes, index: int) -> int:
    hidden = sizes["hidden_size"]
    if index < sizes["first_k_dense_replace"]:
        mlp = _gated_mlp(hidden, sizes["intermediate_size"])
    else:
        experts = sizes["n_routed_experts"]
        expert = _gated_mlp(hidden, sizes["moe_intermediate_size"])
        mlp = (experts + sizes["n_shared_experts"]) * expert + experts * (hidden + 1)
    return _latent_attention(sizes) + mlp + 2 * hidden


def _latent_attention(sizes: Sizes) -> int:
    hidden, heads = sizes["hidden_size"], sizes["num_attention_heads"]
    query_rank, latent = sizes["q_lora_rank"], sizes["kv_lora_rank"]
    plain, rotary = sizes["qk_nope_head_dim"], sizes["qk_rope_head_dim"]
    value = sizes["v_head_dim"]
    query = hidden * query_rank + query_rank + query_rank * heads * (plain + rotary)
    key_value = hidden * (latent + rotary) + latent + latent * heads * (plain + value)
    return query + key_value + heads * value * hidden


def _gemma3(sizes: Sizes, index: int) -> int:
    return _qwen3(sizes, index) + 2 * sizes["hidden_size"]


_LAYERS: dict[str, Callable[[Sizes, int], int]] = {
    "LlamaForCausalLM": _llama,
    "Qwen3ForCausalLM": _qwen3,
    "Qwen3MoeForCausalLM": _qwen3_moe,
    "MixtralForCausalLM": _mixtral,
    "GptOssForCausalLM": _gpt_oss,
    "DeepseekV3ForCausalLM": _deepseek_v3,
    "Gemma3ForCausalLM": _gemma3,
}
"""Parameters of one layer, given the sizes and the layer's index."""

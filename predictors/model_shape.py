"""The sizes of a decoder-only transformer that decide what its steps cost.

Read from ``config.json``, under the names that transformers has for them. Not understood, and so an
error: layers that are neither full nor sliding-window attention (state spaces, linear attention).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from warpserve.predictors.predictor import PredictorError

_WITH_NORMED_HEADS = ("qwen3", "qwen3_moe", "gemma3_text", "gemma3")
"""A config.json's model_type."""
_EXPERT_COUNTS = ("num_experts", "num_local_experts", "n_routed_experts")


@dataclass(frozen=True)
class GroupedAttention:
    """Heads of queries that share heads of keys and values."""

    heads: int
    kv_heads: int
    head_width: int

    def kv_heads_of(self, ranks: int) -> int:
        """Of keys and values, on one of so many ranks: each has a whole one at least."""
        return max(1, self.kv_heads // ranks)


@dataclass(frozen=True)
class LatentAttention:
    """Keys and values of a token compressed into one vector (DeepSeek-V2, section 2.1)."""

    heads: int
    query_rank: int | None
    """None: queries are not compressed."""
    latent_width: int
    position_width: int
    """Of the part of keys and queries that carries positions."""
    key_width: int
    """Of the other part."""
    value_width: int


@dataclass(frozen=True)
class Experts:
    count: int
    per_token: int
    intermediate: int
    shared_intermediate: int
    """Of the experts that every token goes through, all together; 0: none."""
    layers: int

    def share_hit(self, tokens: int) -> float:
        """By so many tokens, of all experts, if routing is even and independent."""
        return 1 - (1 - self.per_token / self.count) ** tokens


@dataclass(frozen=True)
class ModelShape:
    hidden: int
    layers: int
    attention: GroupedAttention | LatentAttention
    sliding_layers: int
    """Those that look no further back than ``sliding_window`` tokens."""
    sliding_window: int
    intermediate: int
    """Of the MLPs of layers without experts."""
    experts: Experts | None
    vocabulary: int
    tied_embedding: bool

    @property
    def dense_layers(self) -> int:
        """Layers with an MLP of their own, without experts."""
        return self.layers - (self.experts.layers if self.experts else 0)


def norms_heads(config: Mapping[str, Any]) -> bool:
    """Whether queries and keys are normed, each head by itself."""
    return config.get("model_type") in _WITH_NORMED_HEADS


def model_shape(config: Mapping[str, Any]) -> ModelShape:
    """``config``: a ``config.json``. Raises PredictorError, naming the field that is missing."""
    fields = _Fields(config.get("text_config") or config)
    layers = fields.number("num_hidden_layers")
    sliding_layers = _sliding_layers(fields, layers)
    experts = _experts(fields, layers)
    has_dense_layers = experts is None or experts.layers < layers
    return ModelShape(
        hidden=fields.number("hidden_size"),
        layers=layers,
        attention=_latent(fields) if fields.has("kv_lora_rank") else _grouped(fields),
        sliding_layers=sliding_layers,
        sliding_window=fields.number("sliding_window") if sliding_layers else 0,
        intermediate=fields.number("intermediate_size") if has_dense_layers else 0,
        experts=experts,
        vocabulary=fields.number("vocab_size"),
        tied_embedding=bool(fields.get("tie_word_embeddings", False)),
    )


class _Fields:
    """A configuration, with an error for what it lacks."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._config = config

    def has(self, name: str) -> bool:
        return self._config.get(name) is not None

    def get(self, name: str, default: Any = None) -> Any:
        return self._config[name] if self.has(name) else default

    def number(self, *names: str) -> int:
        """The first of ``names`` that there is. Raises PredictorError if none is a count."""
        for name in names:
            value = self.get(name)
            if value is None:
                continue
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise PredictorError(f"config.json: {name} is {value!r}, not a number above 0")
            return value
        raise PredictorError(f"config.json lacks {' or '.join(names)}")


def _grouped(fields: _Fields) -> GroupedAttention:
    heads = fields.number("num_attention_heads")
    kv_heads = fields.number("num_key_value_heads") if fields.has("num_key_value_heads") else heads
    if fields.has("head_dim"):
        return GroupedAttention(heads, kv_heads, fields.number("head_dim"))
    return GroupedAttention(heads, kv_heads, fields.number("hidden_size") // heads)


def _latent(fields: _Fields) -> LatentAttention:
    return LatentAttention(
        heads=fields.number("num_attention_heads"),
        query_rank=fields.number("q_lora_rank") if fields.has("q_lora_rank") else None,
        latent_width=fields.number("kv_lora_rank"),
        position_width=fields.number("qk_rope_head_dim"),
        key_width=fields.number("qk_nope_head_dim"),
        value_width=fields.number("v_head_dim"),
    )


def _experts(fields: _Fields, layers: int) -> Experts | None:
    if not any(fields.get(name) for name in _EXPERT_COUNTS):
        return None
    intermediate = fields.number("moe_intermediate_size", "intermediate_size")
    shared = fields.get("shared_expert_intermediate_size")
    return Experts(
        count=fields.number(*_EXPERT_COUNTS),
        per_token=fields.number("num_experts_per_tok", "experts_per_token"),
        intermediate=intermediate,
        shared_intermediate=shared or fields.get("n_shared_experts", 0) * intermediate,
        layers=sum(_has_experts(fields, index) for index in range(layers)),
    )


def _has_experts(fields: _Fields, index: int) -> bool:
    if index < fields.get("first_k_dense_replace", 0):
        return False
    if index in fields.get("mlp_only_layers", ()):
        return False
    if index % fields.get("moe_layer_freq", 1):
        return False
    return bool((index + 1) % fields.get("decoder_sparse_step", 1) == 0)


def _sliding_layers(fields: _Fields, layers: int) -> int:
    kinds = fields.get("layer_types", ())
    unknown = set(kinds) - {"full_attention", "sliding_attention"}
    if unknown:
        raise PredictorError(
            f"config.json: layer_types has {', '.join(sorted(unknown))}; "
            "full_attention and sliding_attention are understood"
        )
    if not fields.has("sliding_window") or not fields.get("use_sliding_window", True):
        return 0
    if kinds:
        return sum(kind == "sliding_attention" for kind in kinds)
    if fields.has("sliding_window_pattern"):  # every so many layers, one looks at all tokens
        return layers - layers // fields.number("sliding_window_pattern")
    return layers

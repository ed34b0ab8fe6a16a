"""What attention computes and reads, of either kind, in one layer of one rank."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from warpserve.predictors.analytic.roofline import Roofline
from warpserve.predictors.mixed import Prefill
from warpserve.predictors.model_shape import GroupedAttention, LatentAttention
from warpserve.predictors.predictor import PredictorError
from warpserve.predictors.weights import WeightFormat


class Work(NamedTuple):
    operations: float
    moved_bytes: float


class AttentionLayer(Protocol):
    def projections_ns(self, roofline: Roofline, tokens: int) -> float:
        """To queries, keys and values, and back."""

    def prefill(self, prefills: Sequence[Prefill], window: int | None) -> Work: ...

    def decode(self, contexts: Sequence[int], window: int | None) -> Work: ...


class Grouped:
    """Heads are divided over the ranks; a rank has a whole head of keys and values at least."""

    def __init__(
        self,
        shape: GroupedAttention,
        *,
        hidden: int,
        ranks: int,
        weights: WeightFormat,
        cache_bytes: int,
    ) -> None:
        self._heads = _share_of_heads(shape.heads, ranks)
        self._kv_heads = shape.kv_heads_of(ranks)
        self._width = shape.head_width
        self._hidden = hidden
        self._weights = weights
        self._cache_bytes = cache_bytes

    def projections_ns(self, roofline: Roofline, tokens: int) -> float:
        queries = self._heads * self._width
        keys_and_values = 2 * self._kv_heads * self._width
        stored, number = self._weights.bytes_per_weight, self._weights.multiplied_as
        return roofline.matrix_ns(
            tokens, self._hidden, queries + keys_and_values, stored, number
        ) + roofline.matrix_ns(tokens, queries, self._hidden, stored, number)

    def prefill(self, prefills: Sequence[Prefill], window: int | None) -> Work:
        pairs = sum(visible_pairs(new, cached, window) for new, cached in prefills)
        tokens = sum(new for new, _ in prefills)
        read = sum(_visible(new + cached, window, new) for new, cached in prefills)
        return Work(
            4 * self._heads * self._width * pairs,
            4 * tokens * self._heads * self._width + read * self._cached_token_bytes,
        )

    def decode(self, contexts: Sequence[int], window: int | None) -> Work:
        seen = _seen(contexts, window)
        return Work(4 * self._heads * self._width * seen, seen * self._cached_token_bytes)

    @property
    def _cached_token_bytes(self) -> int:
        return 2 * self._kv_heads * self._width * self._cache_bytes


class Latent:
    """Each rank reads all latent vectors. Decodes multiply queries with them as they are; prefills
    make keys and values of them first (DeepSeek-V2, appendix on absorbed matrices)."""

    def __init__(
        self,
        shape: LatentAttention,
        *,
        hidden: int,
        ranks: int,
        weights: WeightFormat,
        cache_bytes: int,
    ) -> None:
        self._shape = shape
        self._heads = _share_of_heads(shape.heads, ranks)
        self._hidden = hidden
        self._weights = weights
        self._cache_bytes = cache_bytes

    def projections_ns(self, roofline: Roofline, tokens: int) -> float:
        shape, heads = self._shape, self._heads
        queries = heads * (shape.key_width + shape.position_width)
        matrices = [
            (self._hidden, shape.latent_width + shape.position_width),
            (heads * shape.value_width, self._hidden),
            # From latent vectors to keys and values, or into queries and out of outputs.
            (shape.latent_width, heads * (shape.key_width + shape.value_width)),
        ]
        if shape.query_rank is None:
            matrices.append((self._hidden, queries))
        else:
            matrices += [(self._hidden, shape.query_rank), (shape.query_rank, queries)]
        stored, number = self._weights.bytes_per_weight, self._weights.multiplied_as
        return sum(
            roofline.matrix_ns(tokens, inner, columns, stored, number)
            for inner, columns in matrices
        )

    def prefill(self, prefills: Sequence[Prefill], window: int | None) -> Work:
        shape, heads = self._shape, self._heads
        pairs = sum(visible_pairs(new, cached, window) for new, cached in prefills)
        cached_tokens = sum(cached for _, cached in prefills)
        context = sum(new + cached for new, cached in prefills)
        pair = 2 * heads * (shape.key_width + shape.position_width + shape.value_width)
        expansion = 2 * shape.latent_width * heads * (shape.key_width + shape.value_width)
        expanded_bytes = 2 * heads * (shape.key_width + shape.position_width + shape.value_width)
        return Work(
            pair * pairs + expansion * cached_tokens,
            context * (self._cached_token_bytes + expanded_bytes),
        )

    def decode(self, contexts: Sequence[int], window: int | None) -> Work:
        shape = self._shape
        seen = _seen(contexts, window)
        pair = 2 * self._heads * (2 * shape.latent_width + shape.position_width)
        return Work(pair * seen, seen * self._cached_token_bytes)

    @property
    def _cached_token_bytes(self) -> int:
        return (self._shape.latent_width + self._shape.position_width) * self._cache_bytes


def _share_of_heads(heads: int, ranks: int) -> int:
    if heads % ranks:
        raise PredictorError(f"num_attention_heads {heads} does not divide by {ranks} ranks")
    return heads // ranks


def _visible(tokens: int, window: int | None, new: int) -> int:
    """Of a sequence, the tokens that its ``new`` last ones look at."""
    return tokens if window is None else min(tokens, window + new)


def visible_pairs(new: int, cached: int, window: int | None) -> float:
    """Pairs of a new token and one that it looks at, itself included."""
    first, last = cached + 1, cached + new
    if window is None or last <= window:
        return (first + last) * new / 2
    if first > window:
        return float(new * window)
    growing = window - cached
    return (first + window) * growing / 2 + (new - growing) * window


def _seen(contexts: Sequence[int], window: int | None) -> int:
    if window is None:
        return sum(contexts)
    return sum(context if context < window else window for context in contexts)

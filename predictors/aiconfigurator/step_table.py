"""The costs of one deployment's operators on a grid, and between its points."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

from warpserve.predictors.curves import Curve, blend, position
from warpserve.predictors.mixed import Prefill
from warpserve.predictors.predictor import OperatorTime, PredictorError, Provenance

_CACHED_PREFILLS = 8192
_OF_ALL_REPLICAS = (
    "moe",
    "moe_overlap",
    "moe_pre_dispatch",
    "moe_post_dispatch",
    "gather and scatter",
)
"""Operators on the tokens of all replicas, which the package takes to be as many in each."""


@dataclass(frozen=True)
class Operator:
    name: str
    source: str
    """As the package says: silicon (measured), mixed, empirical (a formula)."""
    duration_ns: list[int]
    """At each point of the axis, all layers together."""
    is_listed: bool = True
    """In the package; others are formulas of this project."""


@dataclass(frozen=True)
class Limits:
    """How far the package's measurements go."""

    tokens: int
    prefill_tokens: int
    """New and cached, of one request."""
    decode_requests: int
    context: int
    contexts_total: int
    """Of all decoding requests of a step."""
    experts_tokens: int | None = None
    """Of all replicas; None: the model has no experts."""


@dataclass(frozen=True)
class StepTable:
    """Axes, and values on them. Durations are in ns."""

    source: str
    notes: list[str]
    """What the user is to know about these figures."""
    limits: Limits
    tokens: list[int]
    prefill_operators: list[Operator]
    """Of a step with prefills, over ``tokens``."""
    decode_operators: list[Operator]
    """Of a step without."""
    requests: list[int]
    logits: Operator
    """Over ``requests``."""
    cold_token_ns: float
    """What a token of a decode's context takes that comes from memory and not from a cache."""
    decode_context: list[int]
    decode_attention: list[list[int]]
    """[requests][context]: of so many equal requests together."""
    prefill_requests: list[int]
    prefill_new: list[int]
    prefill_cached: list[int]
    prefill_attention: list[list[list[int]]]
    """[requests][new][cached]: likewise."""

    def to_json(self) -> str:
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> StepTable:
        """Raises PredictorError for what is no such table."""
        try:
            fields: dict[str, Any] = json.loads(text)
            for name in ("prefill_operators", "decode_operators"):
                fields[name] = [Operator(**each) for each in fields[name]]
            fields["logits"] = Operator(**fields["logits"])
            fields["limits"] = Limits(**fields["limits"])
            return cls(**fields)
        except (ValueError, TypeError, KeyError) as error:
            raise PredictorError(f"not a table of steps: {error}") from error


class TableCosts:
    """StepCosts between the points of a table.

    A request's attention is its share of a batch of as many requests that are all like it.
    """

    provenance = Provenance.INTERPOLATED

    def __init__(self, table: StepTable, replicas: int = 1) -> None:
        """``replicas``: that share the experts."""
        self._table = table
        self._replicas = replicas
        self._curves = {
            has_prefill: [
                (each.name, Curve(table.tokens, each.duration_ns), _source(each, table))
                for each in operators
            ]
            for has_prefill, operators in (
                (True, table.prefill_operators),
                (False, table.decode_operators),
            )
        }
        self._logits = Curve(table.requests, table.logits.duration_ns)
        self._decode_curve = lru_cache(len(table.requests) * 64)(self._make_decode_curve)
        self._prefill_share_ns = lru_cache(_CACHED_PREFILLS)(self._compute_prefill_share_ns)

    def tokens(
        self, tokens: int, *, has_prefill: bool, shared_tokens: int | None = None
    ) -> list[OperatorTime]:
        in_each = tokens if shared_tokens is None else shared_tokens / self._replicas
        return [
            OperatorTime(name, curve.at(in_each if name in _OF_ALL_REPLICAS else tokens), source)
            for name, curve, source in self._curves[has_prefill]
        ]

    def logits(self, requests: int) -> list[OperatorTime]:
        logits = self._table.logits
        source = _source(logits, self._table)
        return [OperatorTime(logits.name, self._logits.at(requests), source)]

    def prefill_attention(self, prefills: Sequence[Prefill]) -> list[OperatorTime]:
        count = len(prefills)
        total_ns = sum(self._prefill_share_ns(count, new, cached) for new, cached in prefills)
        return [OperatorTime("prefill attention", total_ns, self._table.source)]

    def decode_attention(self, contexts: Sequence[int]) -> list[OperatorTime]:
        total_ns = self._decode_curve(len(contexts)).total(contexts)
        return [OperatorTime("decode attention", total_ns, self._table.source)]

    def outside(
        self,
        tokens: int,
        prefills: Sequence[Prefill],
        contexts: Sequence[int],
        *,
        shared_tokens: int | None = None,
    ) -> str | None:
        limits = self._table.limits
        if tokens > limits.tokens:
            return f"{tokens:,} tokens in a step, measured up to {limits.tokens:,}"
        of_all = tokens * self._replicas if shared_tokens is None else shared_tokens
        if limits.experts_tokens is not None and of_all > limits.experts_tokens:
            return f"{of_all:,} tokens for the experts, measured up to {limits.experts_tokens:,}"
        longest = max((new + cached for new, cached in prefills), default=0)
        if longest > limits.prefill_tokens:
            return f"a prompt of {longest:,} tokens, measured up to {limits.prefill_tokens:,}"
        if len(contexts) > limits.decode_requests:
            return f"{len(contexts):,} decodes, measured up to {limits.decode_requests:,}"
        if max(contexts, default=0) > limits.context:
            return f"a context of {max(contexts):,} tokens, measured up to {limits.context:,}"
        if sum(contexts) > limits.contexts_total:
            return (
                f"{sum(contexts):,} tokens of context in a step, measured up to "
                f"{limits.contexts_total:,}"
            )
        return None

    def _make_decode_curve(self, count: int) -> Curve:
        """One request's share over its context, in a batch of ``count``."""
        table = self._table
        counted = _counted(table.requests, count)
        row, along = position(table.requests, counted)
        rows = table.decode_attention
        total = _from_memory(
            blend(rows[row], rows[row + 1], along),
            [table.cold_token_ns * counted * context for context in table.decode_context],
        )
        return Curve(table.decode_context, [value / counted for value in total])

    def _compute_prefill_share_ns(self, count: int, new: int, cached: int) -> float:
        table = self._table
        counted = _counted(table.prefill_requests, count)
        row, of_requests = position(table.prefill_requests, counted)
        piece, of_new = position(table.prefill_new, new)
        column, of_cached = position(table.prefill_cached, cached)
        shorter, longer = (
            blend(few[column : column + 2], many[column : column + 2], of_requests)
            for few, many in zip(
                table.prefill_attention[row][piece : piece + 2],
                table.prefill_attention[row + 1][piece : piece + 2],
                strict=True,
            )
        )
        below, above = blend(shorter, longer, of_new)
        return (below + (above - below) * of_cached) / counted


def _source(operator: Operator, table: StepTable) -> str:
    return f"{operator.source}, {table.source}" if operator.is_listed else operator.source


def _from_memory(measured: Sequence[float], reading: Sequence[float]) -> list[float]:
    """Of a batch over its context: no less than what the shortest takes, and reading the rest.

    The package's kernels were timed again and again on the same keys and values, which a cache then
    has (128 MB on an RTX PRO 6000). In an engine all weights pass through it from step to step.
    """
    start = measured[0]
    return [max(time, start + more) for time, more in zip(measured, reading, strict=True)]


def _counted(counts: Sequence[int], count: int) -> int:
    """More requests than the table has take as long for each as the most that it has."""
    return min(count, counts[-1])

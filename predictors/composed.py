"""A step as the sum of its operators.

Of a forward pass of vLLM or SGLang, four parts depend on different things, and each is priced for
what it depends on:

- what works on tokens one by one (matrices, norms, experts, collectives): the padded tokens, and
  for experts those of all replicas that share them;
- the last layer and the choice of tokens: one row a request;
- attention of prefills: new and cached tokens of each request;
- attention of decodes: the context of each request.

Attention is a sum over requests and not a function of averages: a chunk of a long prompt beside
short ones, or one long context in a batch, costs what it costs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Protocol

from warpserve.predictors.batch import Batch, Sampling
from warpserve.predictors.deployment import Deployment
from warpserve.predictors.lora import Lora
from warpserve.predictors.mixed import Mixed, Prefill
from warpserve.predictors.predictor import (
    Lookups,
    OperatorTime,
    Prediction,
    PredictorError,
    Provenance,
)
from warpserve.predictors.sampling import SamplingCosts
from warpserve.predictors.skewed import Skewed

_CACHED_SIZES = 8192
_BESIDE = "beside prefills"
_ALONE = "its thread blocks, when the others are done"


class StepCosts(Protocol):
    """The four parts. Each answer is in ns, all layers together."""

    provenance: Provenance
    """Of a step that ``outside`` has no objection to."""

    def tokens(
        self, tokens: int, *, has_prefill: bool, shared_tokens: int | None = None
    ) -> list[OperatorTime]:
        """``shared_tokens``: of all replicas that share the experts; None: ``tokens`` in each."""

    def logits(self, requests: int) -> list[OperatorTime]: ...

    def prefill_attention(self, prefills: Sequence[Prefill]) -> list[OperatorTime]: ...

    def decode_attention(self, contexts: Sequence[int]) -> list[OperatorTime]:
        """Without prefills beside them."""

    def outside(
        self,
        tokens: int,
        prefills: Sequence[Prefill],
        contexts: Sequence[int],
        *,
        shared_tokens: int | None = None,
    ) -> str | None:
        """Why the answer for such a step is a guess, or None. ``shared_tokens``: as above."""


class Beside(Protocol):
    def decodes_ns(
        self, prefills: Sequence[Prefill], contexts: Sequence[int], alone_ns: float
    ) -> float:
        """Of a step's decodes, which take ``alone_ns`` where there are no prefills."""


class Composed:
    """The predictor of any StepCosts. What is None is left out."""

    def __init__(
        self,
        costs: StepCosts,
        sampling: SamplingCosts | None = None,
        skewed: Skewed | None = None,
        mixed: Beside | None = None,
        lora: Lora | None = None,
    ) -> None:
        self._costs = costs
        self._sampling = sampling
        self._skewed = skewed
        self._mixed = mixed
        self._lora = lora
        self._fixed_ns = lru_cache(_CACHED_SIZES)(self._compute_fixed_ns)

    @classmethod
    def of(
        cls, costs: StepCosts, deployment: Deployment, *, mixed: Beside | None = None
    ) -> Composed:
        """With nothing left out. ``mixed``: where that is known better than by `Mixed`."""
        return cls(
            costs,
            SamplingCosts(deployment),
            Skewed(deployment),
            mixed or Mixed(deployment),
            Lora(deployment),
        )

    def predict(self, batch: Batch) -> Prediction:
        prefills, contexts = _split(batch)
        costs = self._costs
        duration_ns = self._fixed_ns(
            batch.padded_tokens,
            len(batch.requests),
            batch.sampling,
            batch.loras,
            bool(prefills),
            batch.shared_tokens,
        )
        if prefills:
            duration_ns += _total_ns(costs.prefill_attention(prefills))
        if contexts:
            alone_ns = _total_ns(costs.decode_attention(contexts))
            if prefills:
                duration_ns += self._beside_ns(prefills, contexts, alone_ns)
            else:
                duration_ns += alone_ns + self._skew_ns(batch, contexts, alone_ns)
        if not (math.isfinite(duration_ns) and duration_ns > 0):
            raise PredictorError(f"{duration_ns} ns came out for {batch}")
        objection = costs.outside(
            batch.padded_tokens, prefills, contexts, shared_tokens=batch.shared_tokens
        )
        if objection is None:
            return Prediction(math.ceil(duration_ns), costs.provenance)
        return Prediction(math.ceil(duration_ns), Provenance.EXTRAPOLATED, objection)

    def explain(self, batch: Batch) -> list[OperatorTime]:
        prefills, contexts = _split(batch)
        costs = self._costs
        rows = costs.tokens(
            batch.padded_tokens, has_prefill=bool(prefills), shared_tokens=batch.shared_tokens
        )
        rows += self._adapters(batch.padded_tokens, batch.loras)
        if prefills:
            rows += costs.prefill_attention(prefills)
        alone = costs.decode_attention(contexts) if contexts else []
        rows += alone
        if contexts and prefills:
            alone_ns = _total_ns(alone)
            more_ns = self._beside_ns(prefills, contexts, alone_ns) - alone_ns
            rows += [OperatorTime("decode attention", more_ns, _BESIDE)] if more_ns else []
        elif contexts:
            skew_ns = self._skew_ns(batch, contexts, _total_ns(alone))
            rows += [OperatorTime("longest context", skew_ns, _ALONE)] if skew_ns else []
        return rows + self._of_requests(len(batch.requests), batch.sampling)

    @property
    def lookups(self) -> Lookups:
        """Of the part that depends on sizes alone."""
        info = self._fixed_ns.cache_info()
        return Lookups(info.hits, info.misses)

    def _compute_fixed_ns(
        self,
        tokens: int,
        requests: int,
        sampling: Sampling,
        loras: int,
        has_prefill: bool,
        shared_tokens: int | None,
    ) -> float:
        of_tokens = self._costs.tokens(tokens, has_prefill=has_prefill, shared_tokens=shared_tokens)
        of_tokens = of_tokens + self._adapters(tokens, loras)
        return _total_ns(of_tokens) + _total_ns(self._of_requests(requests, sampling))

    def _beside_ns(
        self, prefills: Sequence[Prefill], contexts: Sequence[int], alone_ns: float
    ) -> float:
        if self._mixed is None:
            return alone_ns
        return self._mixed.decodes_ns(prefills, contexts, alone_ns)

    def _skew_ns(self, batch: Batch, contexts: Sequence[int], alone_ns: float) -> float:
        return 0.0 if self._skewed is None else self._skewed.extra_ns(batch, contexts, alone_ns)

    def _adapters(self, tokens: int, loras: int) -> list[OperatorTime]:
        return [] if self._lora is None else self._lora.rows(tokens, loras)

    def _of_requests(self, requests: int, sampling: Sampling) -> list[OperatorTime]:
        chosen = [] if self._sampling is None else self._sampling.rows(requests, sampling)
        return self._costs.logits(requests) + chosen


def _split(batch: Batch) -> tuple[list[Prefill], list[int]]:
    """Prefills, and of each decode the context: with the tokens of this step."""
    if not batch.requests or batch.padded_tokens < batch.new_tokens:
        raise PredictorError(f"no step works on {batch}")
    prefills, contexts = [], []
    for new_tokens, cached_tokens, is_prefill in batch.requests:
        if is_prefill:
            prefills.append((new_tokens, cached_tokens))
        else:
            contexts.append(new_tokens + cached_tokens)
    return prefills, contexts


def _total_ns(rows: Sequence[OperatorTime]) -> float:
    return sum(row.duration_ns for row in rows)

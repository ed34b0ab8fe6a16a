"""Speculative decoding with a model that drafts: its forward passes are part of a step.

After the model's own, the drafter works on the same tokens once, and then on one token of each
request for every further draft (or on all drafts at once, with parallel drafting). Where no draft
could be used, only the first pass is left (vLLM 0.33, ``num_spec_tokens_to_schedule``).
"""

from __future__ import annotations

from warpserve.predictors.batch import Batch, RequestStep
from warpserve.predictors.captured import padded_for
from warpserve.predictors.predictor import (
    Explaining,
    Lookups,
    OperatorTime,
    Prediction,
    Provenance,
)


class Drafted:
    """``target``: of the model that is served; ``passes``: of the drafter in a step."""

    def __init__(self, target: Explaining, drafter: Explaining, passes: int) -> None:
        self._target = target
        self._drafter = drafter
        self._later_passes = passes - 1

    def predict(self, batch: Batch) -> Prediction:
        parts = [self._target.predict(batch), self._drafter.predict(batch)]
        if later_passes := self._later_passes_of(batch):
            parts += [self._drafter.predict(_one_token_each(batch))] * later_passes
        duration_ns = sum(each.duration_ns for each in parts)
        guesses = [each for each in parts if each.provenance is Provenance.EXTRAPOLATED]
        return (guesses or parts)[0]._replace(duration_ns=duration_ns)

    def explain(self, batch: Batch) -> list[OperatorTime]:
        rows = self._target.explain(batch)
        rows += [_of_drafter(row, 1) for row in self._drafter.explain(batch)]
        if later_passes := self._later_passes_of(batch):
            later = self._drafter.explain(_one_token_each(batch))
            rows += [_of_drafter(row, later_passes) for row in later]
        return rows

    def _later_passes_of(self, batch: Batch) -> int:
        return 0 if batch.skips_drafts else self._later_passes

    @property
    def lookups(self) -> Lookups:
        target, drafter = self._target.lookups, self._drafter.lookups
        return Lookups(target.hits + drafter.hits, target.misses + drafter.misses)


def _one_token_each(batch: Batch) -> Batch:
    """Behind all tokens of the step: those of the drafts in between hardly add to a context."""
    requests = tuple(
        RequestStep(1, new + cached, is_prefill=False) for new, cached, _ in batch.requests
    )
    return Batch(requests, padded_for(batch.launch, len(requests)), launch=batch.launch)


def _of_drafter(row: OperatorTime, passes: int) -> OperatorTime:
    count = f" x {passes}" if passes > 1 else ""
    return OperatorTime(f"drafter: {row.name}{count}", row.duration_ns * passes, row.source)

"""What all predictors around another one have in common."""

from __future__ import annotations

from warpserve.predictors.batch import Batch
from warpserve.predictors.predictor import Explaining, Lookups, OperatorTime


class Outer:
    """Explains and counts as ``inner`` does; what is predicted is for those derived from it."""

    def __init__(self, inner: Explaining) -> None:
        self._inner = inner

    def explain(self, batch: Batch) -> list[OperatorTime]:
        return self._inner.explain(batch)

    @property
    def lookups(self) -> Lookups:
        return self._inner.lookups

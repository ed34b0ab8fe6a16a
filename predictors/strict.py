"""No answer rather than a guess."""

from __future__ import annotations

from warpserve.predictors.batch import Batch
from warpserve.predictors.predictor import (
    Explaining,
    Lookups,
    OperatorTime,
    Prediction,
    PredictorError,
    Provenance,
)


class Strict:
    """Any predictor, whose extrapolations are errors."""

    def __init__(self, inner: Explaining) -> None:
        self._inner = inner

    def predict(self, batch: Batch) -> Prediction:
        prediction = self._inner.predict(batch)
        if prediction.provenance is Provenance.EXTRAPOLATED:
            context = sum(new + cached for new, cached, _ in batch.requests)
            raise PredictorError(
                f"strict: a step of {len(batch.requests)} requests, {batch.new_tokens:,} new "
                f"tokens and {context:,} tokens of context is extrapolated: {prediction.outside}"
            )
        return prediction

    def explain(self, batch: Batch) -> list[OperatorTime]:
        return self._inner.explain(batch)

    @property
    def lookups(self) -> Lookups:
        return self._inner.lookups

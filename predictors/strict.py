"""No answer rather than a guess."""

from __future__ import annotations

from warpserve.predictors.batch import Batch
from warpserve.predictors.outer import Outer
from warpserve.predictors.predictor import Prediction, PredictorError, Provenance


class Strict(Outer):
    """Any predictor, whose extrapolations are errors."""

    def predict(self, batch: Batch) -> Prediction:
        prediction = self._inner.predict(batch)
        if prediction.provenance is Provenance.EXTRAPOLATED:
            context = sum(new + cached for new, cached, _ in batch.requests)
            raise PredictorError(
                f"strict: a step of {len(batch.requests)} requests, {batch.new_tokens:,} new "
                f"tokens and {context:,} tokens of context is extrapolated: {prediction.outside}"
            )
        return prediction

"""A guess does not go unnoticed."""

from __future__ import annotations

import logging

from warpserve.predictors.batch import Batch
from warpserve.predictors.outer import Outer
from warpserve.predictors.predictor import Explaining, Prediction, Provenance


class Warned(Outer):
    """Any predictor; the log warns of the first step that it extrapolates."""

    def __init__(self, inner: Explaining) -> None:
        super().__init__(inner)
        self._has_warned = False

    def predict(self, batch: Batch) -> Prediction:
        prediction = self._inner.predict(batch)
        if prediction.provenance is Provenance.EXTRAPOLATED and not self._has_warned:
            self._has_warned = True
            logging.getLogger(__name__).warning(
                "warpserve: a step is outside of what is known (%s) and extrapolated; the step log "
                "says which others are, and --strict makes each an error",
                prediction.outside,
            )
        return prediction

"""Every step takes the same time."""

from __future__ import annotations

from warpserve.predictors.batch import Batch
from warpserve.predictors.predictor import (
    Lookups,
    OperatorTime,
    Prediction,
    PredictorError,
    Provenance,
)


class Constant:
    """``duration_ns`` for any batch."""

    def __init__(self, duration_ns: int) -> None:
        if duration_ns <= 0:
            raise PredictorError(f"a step takes more than 0 ns, not {duration_ns}")
        self._prediction = Prediction(duration_ns, Provenance.STATED)

    def predict(self, batch: Batch) -> Prediction:  # noqa: ARG002
        return self._prediction

    def explain(self, batch: Batch) -> list[OperatorTime]:  # noqa: ARG002
        return [OperatorTime("step", self._prediction.duration_ns, "as stated")]

    @property
    def lookups(self) -> Lookups:
        return Lookups(0, 0)

"""What a fit to a real run adds to any predictor: ``scale x t + host``."""

from __future__ import annotations

import math

from warpserve.predictors.batch import Batch
from warpserve.predictors.outer import Outer
from warpserve.predictors.predictor import Explaining, OperatorTime, Prediction, PredictorError


class Adjusted(Outer):
    """``host_ns``: what the engine's host takes in each step while the GPU waits for it."""

    def __init__(self, inner: Explaining, *, scale: float = 1.0, host_ns: int = 0) -> None:
        if not (math.isfinite(scale) and scale > 0):
            raise PredictorError(f"scale is a number above 0, not {scale}")
        if host_ns < 0:
            raise PredictorError(f"host is no less than 0, not {host_ns} ns")
        super().__init__(inner)
        self._scale = scale
        self._host_ns = host_ns

    def predict(self, batch: Batch) -> Prediction:
        prediction = self._inner.predict(batch)
        duration_ns = math.ceil(prediction.duration_ns * self._scale) + self._host_ns
        return prediction._replace(duration_ns=duration_ns)

    def explain(self, batch: Batch) -> list[OperatorTime]:
        rows = super().explain(batch)
        if self._scale != 1:
            total_ns = sum(row.duration_ns for row in rows)
            change_ns = total_ns * (self._scale - 1)
            rows.append(OperatorTime("scale", change_ns, f"{self._scale:g}, as stated"))
        if self._host_ns:
            rows.append(OperatorTime("host", self._host_ns, "as stated"))
        return rows

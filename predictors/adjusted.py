"""What a fit to a real run adds to a predictor: ``scale x t + host``, and a scale of prefills."""

from __future__ import annotations

import math

from warpserve.predictors.batch import Batch
from warpserve.predictors.outer import Outer
from warpserve.predictors.predictor import Explaining, OperatorTime, Prediction, PredictorError
from warpserve.predictors.prefills import added_by_prefills_ns


def check_scale(name: str, factor: float) -> None:
    """Raises PredictorError."""
    if not (math.isfinite(factor) and factor > 0):
        raise PredictorError(f"{name} is a number above 0, not {factor}")


class Adjusted(Outer):
    """``prefill_scale``: of what prefills add to a step, which keeps other parts of a GPU busy than
    decodes do; None: as ``scale``. ``host_ns``: what the engine's host takes in each step while the
    GPU waits for it.
    """

    def __init__(
        self,
        inner: Explaining,
        *,
        scale: float = 1.0,
        prefill_scale: float | None = None,
        host_ns: int = 0,
    ) -> None:
        for name, factor in (("scale", scale), ("prefill_scale", prefill_scale)):
            if factor is not None:
                check_scale(name, factor)
        if host_ns < 0:
            raise PredictorError(f"host is no less than 0, not {host_ns} ns")
        super().__init__(inner)
        self._scale = scale
        self._prefill_scale = prefill_scale
        self._host_ns = host_ns

    def predict(self, batch: Batch) -> Prediction:
        prediction = self._inner.predict(batch)
        more_ns = self._more_of_prefills_ns(batch, prediction)
        duration_ns = math.ceil(prediction.duration_ns * self._scale + more_ns) + self._host_ns
        return prediction._replace(duration_ns=duration_ns)

    def explain(self, batch: Batch) -> list[OperatorTime]:
        rows = super().explain(batch)
        total_ns = sum(row.duration_ns for row in rows)
        if self._scale != 1:
            change_ns = total_ns * (self._scale - 1)
            rows.append(OperatorTime("scale", change_ns, f"{self._scale:g}, as stated"))
        if self._prefill_scale is not None:
            more_ns = self._more_of_prefills_ns(batch, self._inner.predict(batch))
            if more_ns:
                source = f"{self._prefill_scale:g} instead, of what prefills add"
                rows.append(OperatorTime("prefill scale", more_ns, source))
        if self._host_ns:
            rows.append(OperatorTime("host", self._host_ns, "as stated"))
        return rows

    def _more_of_prefills_ns(self, batch: Batch, prediction: Prediction) -> float:
        """Than with the scale of decodes."""
        if self._prefill_scale is None:
            return 0.0
        added_ns = added_by_prefills_ns(self._inner, batch, prediction.duration_ns)
        return added_ns * (self._prefill_scale - self._scale)

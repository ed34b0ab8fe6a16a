"""The learned predictor, from the file that `warpserve fit` has written."""

from __future__ import annotations

import json
import math
import operator
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from warpserve.predictors.batch import Batch
from warpserve.predictors.learned.features import NAMES, features
from warpserve.predictors.predictor import (
    Lookups,
    OperatorTime,
    Prediction,
    PredictorError,
    Provenance,
)


@dataclass(frozen=True)
class Regression:
    """What was learned, and from what. Lists are in the order of ``names``."""

    names: list[str]
    coefficients_ns: list[float]
    """Of one unit of each feature; none is negative."""
    largest: list[float]
    """Of each feature, among the steps that were learned from."""
    steps: int
    held_out_median: float
    """Of the relative errors at steps that were left out while learning (five times a fifth)."""
    held_out_p90: float
    source: str

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Regression:
        """Raises PredictorError for what is no regression on today's features."""
        try:
            found = cls(**json.loads(text))
            sizes = {len(found.names), len(found.coefficients_ns), len(found.largest)}
            is_sound = all(math.isfinite(c) and c >= 0 for c in found.coefficients_ns)
        except (ValueError, TypeError) as error:
            raise PredictorError(f"not a learned predictor: {error}") from error
        if found.names != list(NAMES) or len(sizes) != 1 or not is_sound:
            raise PredictorError("a learned predictor of another version: `warpserve fit` again")
        return found


class Learned:
    def __init__(self, regression: Regression) -> None:
        self._regression = regression
        self._coefficients = regression.coefficients_ns
        self._largest = regression.largest

    def predict(self, batch: Batch) -> Prediction:
        values = _features_of(batch)
        duration_ns = sum(map(float.__mul__, self._coefficients, map(float, values)))
        if not (math.isfinite(duration_ns) and duration_ns > 0):
            raise PredictorError(f"{duration_ns} ns came out for {batch}")
        if any(map(operator.gt, values, self._largest)):
            outside = self._outside(values)
            return Prediction(math.ceil(duration_ns), Provenance.EXTRAPOLATED, outside)
        return Prediction(math.ceil(duration_ns), Provenance.INTERPOLATED)

    def explain(self, batch: Batch) -> list[OperatorTime]:
        known = self._regression
        source = f"learned from {known.steps:,} steps, 9 of 10 within {known.held_out_p90:.1%}"
        rows = zip(known.names, known.coefficients_ns, _features_of(batch), strict=True)
        return [
            OperatorTime(name, coefficient * value, source)
            for name, coefficient, value in rows
            if coefficient * value > 0
        ]

    @property
    def lookups(self) -> Lookups:
        return Lookups(0, 0)

    def _outside(self, values: Sequence[float]) -> str:
        return "; ".join(
            f"{name}: {value:,.0f}, learned up to {largest:,.0f}"
            for name, value, largest in zip(NAMES, values, self._largest, strict=True)
            if value > largest
        )


def learned(path: str) -> Learned:
    """``path``: a file of `warpserve fit`. Raises PredictorError."""
    if not Path(path).is_file():
        raise PredictorError(f"no learned predictor {path!r}: `warpserve fit` makes one")
    return Learned(Regression.from_json(Path(path).read_text()))


def _features_of(batch: Batch) -> list[float]:
    if not batch.requests or batch.padded_tokens < batch.new_tokens:
        raise PredictorError(f"no step works on {batch}")
    return features(batch)

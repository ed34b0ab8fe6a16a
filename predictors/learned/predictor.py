"""The learned predictor, from the file that `warpserve fit` has written."""

from __future__ import annotations

import json
import math
import operator
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from warpserve.predictors.batch import Batch
from warpserve.predictors.learned.features import NAMES, STAGES, features, stage_of
from warpserve.predictors.predictor import (
    Lookups,
    OperatorTime,
    Prediction,
    PredictorError,
    Provenance,
)


@dataclass(frozen=True)
class Stage:
    """What was learned from steps of one kind. Lists are in the order of NAMES."""

    coefficients_ns: list[float]
    """Of one unit of each feature; none is negative."""
    largest: list[float]
    """Of each feature, among the steps that were learned from."""
    steps: int
    held_out_median: float
    """Of the relative errors at steps that were left out while learning (five times a fifth)."""
    held_out_p90: float

    @property
    def is_sound(self) -> bool:
        is_complete = len(self.coefficients_ns) == len(self.largest) == len(NAMES)
        return is_complete and all(math.isfinite(c) and c >= 0 for c in self.coefficients_ns)


@dataclass(frozen=True)
class Regression:
    """What was learned, and from what."""

    names: list[str]
    any: Stage
    """From steps of all kinds."""
    stages: dict[str, Stage]
    """By kind, those of which there were enough."""
    source: str

    def of(self, stage: str) -> Stage:
        """For steps of a kind."""
        return self.stages.get(stage, self.any)

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Regression:
        """Raises PredictorError for what is no regression on today's features."""
        try:
            fields = json.loads(text)
            stages = {name: Stage(**each) for name, each in fields["stages"].items()}
            found = cls(**fields | {"any": Stage(**fields["any"]), "stages": stages})
            is_sound = all(each.is_sound for each in (found.any, *stages.values()))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise PredictorError(f"not a learned predictor: {error!r}") from error
        if found.names != list(NAMES) or not stages.keys() <= set(STAGES) or not is_sound:
            raise PredictorError("a learned predictor of another version: `warpserve fit` again")
        return found


class Learned:
    def __init__(self, regression: Regression) -> None:
        self._regression = regression

    def predict(self, batch: Batch) -> Prediction:
        values = _features_of(batch)
        stage = self._regression.of(stage_of(batch))
        total_ns = sum(map(float.__mul__, stage.coefficients_ns, map(float, values)))
        if not (math.isfinite(total_ns) and total_ns > 0):
            raise PredictorError(f"{total_ns} ns came out for {batch}")
        duration_ns = math.ceil(total_ns)
        if any(map(operator.gt, values, stage.largest)):
            outside = _outside(values, stage.largest)
            return Prediction(duration_ns, Provenance.EXTRAPOLATED, outside)
        return Prediction(duration_ns, Provenance.INTERPOLATED, uncertainty=stage.held_out_p90)

    def explain(self, batch: Batch) -> list[OperatorTime]:
        kind = stage_of(batch)
        stage = self._regression.of(kind)
        steps = f"{kind} steps" if kind in self._regression.stages else "steps of all kinds"
        source = f"learned from {stage.steps:,} {steps}, 9 of 10 within {stage.held_out_p90:.1%}"
        rows = zip(NAMES, stage.coefficients_ns, _features_of(batch), strict=True)
        return [
            OperatorTime(name, coefficient * value, source)
            for name, coefficient, value in rows
            if coefficient * value > 0
        ]

    @property
    def lookups(self) -> Lookups:
        return Lookups(0, 0)


def learned(path: str) -> Learned:
    """``path``: a file of `warpserve fit`. Raises PredictorError."""
    if not Path(path).is_file():
        raise PredictorError(f"no learned predictor {path!r}: `warpserve fit` makes one")
    return Learned(Regression.from_json(Path(path).read_text()))


def _features_of(batch: Batch) -> list[float]:
    if not batch.requests or batch.padded_tokens < batch.new_tokens:
        raise PredictorError(f"no step works on {batch}")
    return features(batch)


def _outside(values: Sequence[float], largest: Sequence[float]) -> str:
    return "; ".join(
        f"{name}: {value:,.0f}, learned up to {most:,.0f}"
        for name, value, most in zip(NAMES, values, largest, strict=True)
        if value > most
    )

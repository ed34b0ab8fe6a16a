"""The learned predictor, from the file that `warpserve fit` has written."""

from __future__ import annotations

import json
import math
import operator
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from warpserve.predictors.batch import Batch
from warpserve.predictors.learned.bent_line import BentLine
from warpserve.predictors.learned.features import NAMES, STAGES, features, stage_of
from warpserve.predictors.origin import Origin
from warpserve.predictors.predictor import (
    Lookups,
    OperatorTime,
    Prediction,
    PredictorError,
    Provenance,
)

_LEAST_UNIT = 1e-3
"""Smaller errors are chance."""


@dataclass(frozen=True)
class Stage:
    """What was learned from steps of one kind. Lists are in the order of NAMES.

    The first of each line's regressions is the one on all steps. Others each left a part of them
    out: where they disagree, little was known.
    """

    lines: list[BentLine]
    largest: list[float]
    """Of each feature, among the steps that were learned from."""
    steps: int
    held_out_median: float
    """Of the relative errors at steps that were left out while learning (five times a fifth)."""
    held_out_p90: float
    units_p90: float
    """So many times its `uncertainty_unit` is what 9 of 10 such errors are within."""

    @property
    def is_sound(self) -> bool:
        """Whether it is complete, of numbers that a duration can be made of."""
        regressions = {line.regressions for line in self.lines}
        return (
            len(self.lines) == len(self.largest) == len(NAMES)
            and len(regressions) == 1
            and regressions.pop() > 1
            and all(map(math.isfinite, (self.held_out_median, self.held_out_p90, self.units_p90)))
        )

    def durations_ns(self, values: Sequence[float]) -> list[float]:
        """By each regression. ``values``: in the order of NAMES."""
        sums_ns = [0.0] * len(self.lines[0].slopes_ns[0])
        for line, value in zip(self.lines, values, strict=True):
            if value:
                line.add_to(sums_ns, value)
        return sums_ns

    def uncertainty(self, members_ns: Sequence[float]) -> float:
        """9 of 10 such steps are within so much, relatively."""
        return self.units_p90 * uncertainty_unit(members_ns, self.held_out_median)

    @classmethod
    def of_fields(cls, fields: dict[str, Any]) -> Stage:
        lines = [BentLine(**each) for each in fields["lines"]]
        return cls(**fields | {"lines": lines})


def uncertainty_unit(members_ns: Sequence[float], held_out_median: float) -> float:
    """How far an ensemble's members are apart, relatively, on top of what is usual; not 0."""
    mean_ns = sum(members_ns) / len(members_ns)
    squares = sum((each - mean_ns) ** 2 for each in members_ns) / len(members_ns)
    apart = math.sqrt(squares) / mean_ns if mean_ns > 0 else 0.0
    return max(held_out_median + float(apart), _LEAST_UNIT)


@dataclass(frozen=True)
class Regression:
    """What was learned, and from what."""

    names: list[str]
    any: Stage
    """From steps of all kinds."""
    stages: dict[str, Stage]
    """By kind, those of which there were enough."""
    is_eager: bool
    """Whether most of all these steps were."""
    source: str
    origin: Origin | None = None
    """What the steps are of; None where nobody has said it."""

    def of(self, stage: str) -> Stage:
        """For steps of a kind."""
        return self.stages.get(stage, self.any)

    def lacks_launch_of(self, batch: Batch) -> bool:
        """Whether what it knows of such a batch is from steps that were launched otherwise."""
        return stage_of(batch) not in self.stages and batch.is_eager != self.is_eager

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Regression:
        """Raises PredictorError for what is no regression on today's features."""
        try:
            fields = json.loads(text)
            stages = {name: Stage.of_fields(each) for name, each in fields["stages"].items()}
            found = cls(**fields | {"any": Stage.of_fields(fields["any"]), "stages": stages})
            is_sound = all(each.is_sound for each in (found.any, *stages.values()))
            is_sound &= isinstance(found.is_eager, bool)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise PredictorError(
                f"not a learned predictor of this version, `warpserve fit` again: {error!r}"
            ) from error
        if found.names != list(NAMES) or not stages.keys() <= set(STAGES) or not is_sound:
            raise PredictorError("not a learned predictor of this version: `warpserve fit` again")
        return found


class Learned:
    def __init__(self, regression: Regression) -> None:
        self._regression = regression

    @property
    def origin(self) -> Origin | None:
        """What it has learned of."""
        return self._regression.origin

    def predict(self, batch: Batch) -> Prediction:
        values = _features_of(batch)
        stage = self._regression.of(stage_of(batch))
        total_ns, *members_ns = stage.durations_ns(values)
        if not (math.isfinite(total_ns) and total_ns > 0):
            raise PredictorError(f"{total_ns} ns came out for {batch}")
        duration_ns = math.ceil(total_ns)
        if any(map(operator.gt, values, stage.largest)):
            outside = _outside(values, stage.largest)
            return Prediction(duration_ns, Provenance.EXTRAPOLATED, outside)
        if self._regression.lacks_launch_of(batch):
            outside = f"{stage_of(batch)} steps, of which too few were learned from"
            return Prediction(duration_ns, Provenance.EXTRAPOLATED, outside)
        uncertainty = stage.uncertainty(members_ns)
        return Prediction(duration_ns, Provenance.INTERPOLATED, uncertainty=uncertainty)

    def explain(self, batch: Batch) -> list[OperatorTime]:
        kind = stage_of(batch)
        stage = self._regression.of(kind)
        steps = f"{kind} steps" if kind in self._regression.stages else "steps of all kinds"
        source = f"learned from {stage.steps:,} {steps}, 9 of 10 within {stage.held_out_p90:.1%}"
        rows = zip(NAMES, stage.lines, _features_of(batch), strict=True)
        return [
            OperatorTime(name, duration_ns, source)
            for name, line, value in rows
            if (duration_ns := line.at_ns(value)) > 0
        ]

    @property
    def lookups(self) -> Lookups:
        return Lookups(0, 0)


def learned(path: str) -> Learned:
    """``path``: a file of `warpserve fit`. Raises PredictorError."""
    if not Path(path).is_file():
        raise PredictorError(f"no learned predictor {path!r}: `warpserve fit` makes one")
    try:
        text = Path(path).read_text()
    except (OSError, ValueError) as error:
        raise PredictorError(f"{path} is no learned predictor: {error}") from None
    return Learned(Regression.from_json(text))


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

"""How large an error may be, as CI says it: ``ttft.p50=2%``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from warpserve.bench.compare.comparison import Comparison
from warpserve.bench.compare.curves import TITLES as CURVES
from warpserve.bench.real.metrics import METRICS, STATISTICS
from warpserve.errors import WarpserveError

_THROUGHPUTS = ("makespan", "requests", "output_tokens")
_FORM = re.compile(r"([a-z_.0-9]+)=(\d+(?:\.\d+)?)%")


class ThresholdError(WarpserveError):
    """A threshold names no figure, or one that these runs do not have."""


class Threshold(NamedTuple):
    """The largest error of one figure, either way; of a curve, the largest distance."""

    name: str
    limit: float

    @classmethod
    def parse(cls, text: str) -> Threshold:
        """Raises ThresholdError, with the choices."""
        match = _FORM.fullmatch(text)
        if match is None or match[1] not in names():
            raise ThresholdError(
                f"--max-error {text}: say NAME=2%, with one of {', '.join(names())}"
            )
        return cls(match[1], float(match[2]) / 100)

    def error(self, comparison: Comparison) -> float:
        """Raises ThresholdError where these runs do not have the figure: it would pass unseen."""
        first, _, statistic = self.name.partition(".")
        found: float | None = None
        if statistic and first in comparison.metrics:
            figure = comparison.metrics[first].statistics.get(statistic)
            found = None if figure is None else figure.error
        elif first in comparison.throughput:
            found = comparison.throughput[first].error
        elif first in comparison.curves:
            found = comparison.curves[first].distance
        if found is None:
            raise ThresholdError(f"--max-error {self.name}: at least one run does not have it")
        return found


def names() -> list[str]:
    """All figures that a threshold can be set for."""
    of_metrics = [f"{metric}.{statistic}" for metric in METRICS for statistic in STATISTICS]
    return [*of_metrics, *_THROUGHPUTS, *CURVES]


def exceeded(comparison: Comparison, thresholds: Sequence[Threshold]) -> list[str]:
    """A line for each threshold that an error exceeds."""
    return [
        f"{threshold.name}: {error:+.2%} is more than {threshold.limit:.2%}"
        for threshold in thresholds
        if abs(error := threshold.error(comparison)) > threshold.limit
    ]

"""How much longer than predicted steps of real runs took, by their size."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from statistics import median
from typing import NamedTuple

from tests.benchmarks.accuracy.cases import CASES, Case, deployment_of
from warpserve.predictors.predictor import Predictor
from warpserve.predictors.spec import predictor_of


class Step(NamedTuple):
    size: int
    """What columns are of: requests, or tokens."""
    measured_ms: float
    predicted_ms: float


def excess_table(
    up_to: Sequence[int], steps_of: Callable[[Case, Predictor], Iterable[Step]], digits: int
) -> Iterator[str]:
    """A row a case, without a fit, and a column for sizes up to each of ``up_to``: the medians of
    what steps took more, and of what they took, this with as many ``digits``.
    """
    bounds = [*pairwise((0, *up_to))]
    yield f"| GPU, predictor | {' | '.join(f'{low + 1:,} to {high:,}' for low, high in bounds)} |"
    yield f"|---|{'---|' * len(bounds)}"
    for case in CASES:
        steps = list(steps_of(case, predictor_of(case.spec(""), deployment_of(case))))
        columns = ([step for step in steps if low < step.size <= high] for low, high in bounds)
        yield f"| {case.name} | {' | '.join(_cell(column, digits) for column in columns)} |"


def _cell(steps: Sequence[Step], digits: int) -> str:
    if not steps:
        return ""
    more_ms = median(each.measured_ms - each.predicted_ms for each in steps)
    measured_ms = median(each.measured_ms for each in steps)
    return f"{more_ms:+.{digits + 1}f} of {measured_ms:.{digits}f} ms ({len(steps)})"

"""Measured serving points of SGLang beside waves of requests: tests/data/silicon."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence

from tests.benchmarks.predictors.errors import HEADINGS, Errors
from tests.benchmarks.predictors.serving_points import Cell, Point, deployment_of, points_by_cell
from tests.benchmarks.predictors.steady_state import wave
from warpserve.bench.calibration.fitting import fit_line
from warpserve.predictors.spec import predictor_of


def markdown(kind: str) -> Iterator[str]:
    """The section of one kind of predictor, line by line."""
    yield f"| cell | {HEADINGS} | TTFT, median | scale | host | median then | worst then |"
    yield "|---|---|---|---|---|---|---|---|---|---|"
    for cell, points in points_by_cell("sglang").items():
        yield _row(kind, cell, points)


def _row(kind: str, cell: Cell, points: Sequence[Point]) -> str:
    predictor = predictor_of(kind, deployment_of(cell))
    waves = [wave(predictor, point.load, cell.sampling) for point in points]
    pairs = [(one.tpot_ns, point.tpot_ns) for one, point in zip(waves, points, strict=True)]
    ttft = [one.ttft_ns / point.ttft_ns - 1 for one, point in zip(waves, points, strict=True)]
    fitted = fit_line(pairs)
    then = Errors.of(errors_without_it(pairs))
    return (
        f"| {cell.label()} | {Errors.of([p / m - 1 for p, m in pairs]).cells()} |"
        f" {statistics.median(ttft):+.1%} | {fitted.scale:.3f} | {fitted.host_ns / 1e6:.2f} ms |"
        f" {then.median:.1%} | {then.worst:.1%} |"
    )


def errors_without_it(pairs: Sequence[tuple[float, float]]) -> list[float]:
    """Of each point, by the line that is fitted to all others."""
    errors = []
    for index, (predicted, measured) in enumerate(pairs):
        others = [*pairs[:index], *pairs[index + 1 :]]
        errors.append(fit_line(others).at(predicted) / measured - 1)
    return errors

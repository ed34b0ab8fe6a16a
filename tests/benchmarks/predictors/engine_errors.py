"""What engine_points kept, beside what was measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tests.benchmarks.predictors.engine_points import read_kept
from tests.benchmarks.predictors.serving_points import Cell, Point, points_by_cell, table
from tests.benchmarks.predictors.steady_state import Load


def markdown() -> Iterator[str]:
    kept = read_kept()
    if not kept:
        yield "None has been run yet."
        return
    tpot_ns = {(outcome.deployment, outcome.load): outcome.tpot_ms * 1e6 for outcome in kept}

    def pairs(cell: Cell, points: Sequence[Point]) -> Iterator[tuple[Load, float, float]]:
        for point in points:
            predicted_ns = tpot_ns.get((cell.deployment, point.load))
            if predicted_ns is not None and not point.is_queueing:
                yield point.load, predicted_ns, point.tpot_ns

    yield from table(points_by_cell(), pairs)

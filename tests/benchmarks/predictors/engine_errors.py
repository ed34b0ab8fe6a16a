"""What engine_points kept, beside what was measured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tests.benchmarks.predictors.clients import client_of, has_script
from tests.benchmarks.predictors.engine_points import Key, Outcome, read_kept
from tests.benchmarks.predictors.errors import HEADINGS, Errors
from tests.benchmarks.predictors.serving_points import (
    Cell,
    Point,
    closed_loops,
    deployment_of,
    points_by_cell,
    table,
)
from tests.benchmarks.predictors.steady_state import Load
from warpserve.predictors.batch import Sampling
from warpserve.predictors.sampling import SamplingCosts


def markdown() -> Iterator[str]:
    """Of vLLM on Hopper."""
    cells = points_by_cell().items()
    yield from _of_cells({cell: points for cell, points in cells if cell.is_of_hopper})


def blackwell_markdown(engine: str) -> Iterator[str]:
    """Of closed loops on B200, where it is known how they were served."""
    loops = closed_loops().items()
    yield from _of_cells(
        {cell: points for cell, points in loops if cell.engine == engine and has_script(cell)}
    )


def _of_cells(cells: Mapping[Cell, Sequence[Point]]) -> Iterator[str]:
    kept = read_kept()
    if not kept:
        yield "None has been run yet."
        return
    outcomes = {outcome.key: outcome for outcome in kept}

    def pairs(cell: Cell, points: Sequence[Point]) -> Iterator[tuple[Load, float, float]]:
        for point in points:
            found = outcomes.get(Key.of(cell, point.load))
            if found is not None and not point.is_queueing:
                yield point.load, tpot_ns(cell, found), point.tpot_ns

    yield from table(cells, pairs)
    yield ""
    yield from _ttft(cells, outcomes)


def tpot_ns(cell: Cell, outcome: Outcome) -> float:
    """With the sampling of the cell's points, where the run's was greedy."""
    return outcome.tpot_ms * 1e6 + _more_ns(cell, outcome.load)


def _more_ns(cell: Cell, load: Load) -> float:
    """What the real engine's sampling took of each step, beyond that of the run: greedy."""
    costs = SamplingCosts(deployment_of(cell))

    def sampling_ns(sampling: Sampling) -> float:
        return sum(row.duration_ns for row in costs.rows(load.concurrency, sampling))

    return sampling_ns(cell.sampling) - sampling_ns(Sampling.GREEDY)


def _ttft(cells: Mapping[Cell, Sequence[Point]], outcomes: Mapping[Key, Outcome]) -> Iterator[str]:
    """A line a cell of which it is known how it was measured."""
    yield f"| TTFT of cell | {HEADINGS} |"
    yield "|---|---|---|---|---|"
    for cell, points in cells.items():
        errors = [
            found.ttft_ms * 1e6 / point.ttft_ns - 1
            for point in points
            if client_of(cell).counts_all
            and (found := outcomes.get(Key.of(cell, point.load))) is not None
        ]
        if errors:
            yield f"| {cell.label()} | {Errors.of(errors).cells()} |"

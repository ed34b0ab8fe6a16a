"""What engine_points kept, beside what was measured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from tests.benchmarks.predictors.clients import has_script
from tests.benchmarks.predictors.engine_points import Key, Outcome, has_ttft, read_kept
from tests.benchmarks.predictors.errors import HEADINGS, Errors
from tests.benchmarks.predictors.serving_points import (
    Cell,
    Fit,
    Point,
    closed_loops,
    deployment_of,
    fit_of_tpots,
    is_known,
    points_by_cell,
    table,
)
from tests.benchmarks.predictors.steady_state import Load
from warpserve.bench.calibration.fitting import Line
from warpserve.predictors.batch import Sampling
from warpserve.predictors.sampling import SamplingCosts

_NOISE = 0.03
_WEIGHTS_OF_ONE = (_NOISE / 0.05, _NOISE / 0.2)
"""How near to 1 the scales are before anything is measured: tables are better at decodes."""
_FEWEST_PARTS = 4
"""TPOT and TTFT of two points."""


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
    runs = _Runs({outcome.key: outcome for outcome in kept})
    yield from table(cells, runs.tpots, runs.fit)
    yield ""
    yield from runs.ttft_table(cells)


class _Runs:
    """Points that were run, beside what was measured."""

    def __init__(self, outcomes: Mapping[Key, Outcome]) -> None:
        self._outcomes = outcomes

    def all_of(self, cell: Cell, points: Sequence[Point]) -> list[tuple[Point, Outcome]]:
        found = ((point, self._outcomes.get(Key.of(cell, point.load))) for point in points)
        return [(point, run) for point, run in found if run is not None]

    def of(self, cell: Cell, points: Sequence[Point]) -> list[tuple[Point, Outcome]]:
        """Without those at which requests queue."""
        return [(point, run) for point, run in self.all_of(cell, points) if not point.is_queueing]

    def tpots(self, cell: Cell, points: Sequence[Point]) -> Iterator[tuple[Load, float, float]]:
        for point, run in self.of(cell, points):
            yield point.load, tpot_ns(cell, run), point.tpot_ns

    def fit(self, cell: Cell, points: Sequence[Point]) -> Fit | None:
        """To TTFTs, too, where they can be compared: a scale of prefills takes host's place."""
        if not has_ttft(cell):
            return fit_of_tpots(self.tpots(cell, points))
        runs = self.of(cell, points)
        scales = self._scales(cell, points)
        held_out = [(point, run) for point, run in runs if not is_known(point.load)]
        if scales is None or not held_out:
            return None
        errors = [
            scales.at(tpot_ns(cell, run), 1e6 * (run.tpot_prefill_ms or 0.0)) / point.tpot_ns - 1
            for point, run in held_out
        ]
        return Fit(scales, len(runs) - len(held_out), errors)

    def _scales(self, cell: Cell, points: Sequence[Point]) -> Line | None:
        return fit_scales(
            [
                part
                for point, run in self.of(cell, points)
                if is_known(point.load)
                for part in parts_of(cell, point, run)
            ]
        )

    def ttft_table(self, cells: Mapping[Cell, Sequence[Point]]) -> Iterator[str]:
        """A line a cell of which it is known how it was measured; all points, queueing or not."""
        yield f"| TTFT of cell | {HEADINGS} | held out | median then | bias then | worst then |"
        yield "|---|---|---|---|---|---|---|---|---|"
        before, after = [], []
        for cell, points in cells.items():
            runs = self.all_of(cell, points) if has_ttft(cell) else []
            if not runs:
                continue
            scales = self._scales(cell, points)
            plain = [run.ttft_ms * 1e6 / point.ttft_ns - 1 for point, run in runs]
            fitted = [
                1e6 * scales.at(run.ttft_ms, run.ttft_prefill_ms or 0.0) / point.ttft_ns - 1
                for point, run in runs
                if scales is not None and not is_known(point.load)
            ]
            before += plain
            after += fitted
            then = Errors.of(fitted).cells() if fitted else " | | | "
            yield f"| {cell.label()} | {Errors.of(plain).cells()} | {then} |"
        if after:
            yield f"| **all** | {Errors.of(before).cells()} | {Errors.of(after).cells()} |"


class Part(NamedTuple):
    """A figure that was measured, and what steps say of it."""

    decodes_ns: float
    prefills_ns: float
    measured_ns: float


def parts_of(cell: Cell, point: Point, run: Outcome) -> Iterator[Part]:
    """TPOT and TTFT of a point."""
    for whole_ns, added_ms, measured_ns in (
        (tpot_ns(cell, run), run.tpot_prefill_ms, point.tpot_ns),
        (run.ttft_ms * 1e6, run.ttft_prefill_ms, point.ttft_ns),
    ):
        if added_ms is not None:
            yield Part(whole_ns - 1e6 * added_ms, 1e6 * added_ms, measured_ns)


def fit_scales(parts: Sequence[Part]) -> Line | None:
    """A scale of decodes and one of what prefills add, without a host; None for too few.

    Least relative squares, each scale near 1 preferred as in `fit_line`.
    """
    if len(parts) < _FEWEST_PARTS:
        return None
    rows = [
        (part.decodes_ns / part.measured_ns, part.prefills_ns / part.measured_ns) for part in parts
    ]
    prior = np.diag(_WEIGHTS_OF_ONE)
    solved, *_ = np.linalg.lstsq(
        np.vstack([rows, prior]), np.concatenate([np.ones(len(rows)), _WEIGHTS_OF_ONE]), rcond=None
    )
    scale, prefill_scale = map(float, solved)
    return Line(scale, 0.0, prefill_scale)


def tpot_ns(cell: Cell, outcome: Outcome) -> float:
    """With the sampling of the cell's points, where the run's was greedy."""
    return outcome.tpot_ms * 1e6 + _more_ns(cell, outcome.load)


def _more_ns(cell: Cell, load: Load) -> float:
    """What the real engine's sampling took of each step, beyond that of the run: greedy."""
    costs = SamplingCosts(deployment_of(cell))

    def sampling_ns(sampling: Sampling) -> float:
        return sum(row.duration_ns for row in costs.rows(load.concurrency, sampling))

    return sampling_ns(cell.sampling) - sampling_ns(Sampling.GREEDY)

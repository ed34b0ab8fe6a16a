"""Measured serving points of SGLang beside waves of requests: tests/data/silicon."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tests.benchmarks.predictors.engine_errors import tpot_ns
from tests.benchmarks.predictors.engine_points import Key, read_kept
from tests.benchmarks.predictors.errors import HEADINGS, Errors
from tests.benchmarks.predictors.serving_points import Cell, Point, deployment_of, waves
from tests.benchmarks.predictors.steady_state import Wave, wave
from warpserve.bench.calibration.fitting import fit_line
from warpserve.predictors.spec import predictor_of


class Compared(NamedTuple):
    """A point, and what came out for it."""

    point: Point
    wave: Wave

    @property
    def tpots_ns(self) -> tuple[float, float]:
        """As it came out, and as it was measured."""
        return self.wave.tpot_ns, self.point.tpot_ns

    @property
    def ttft_error(self) -> float:
        return self.wave.ttft_ns / self.point.ttft_ns - 1


def estimated(kind: str) -> Iterator[str]:
    """The table of the estimate with one kind of predictor, line by line."""
    yield from _HEADINGS
    for cell, points in waves().items():
        predictor = predictor_of(kind, deployment_of(cell))
        yield _row(cell, [Compared(p, wave(predictor, p.load, cell.sampling)) for p in points])


def of_engine() -> Iterator[str]:
    """The table of what the engine did, line by line; and that of its TTFT by output length."""
    found = {outcome.key: outcome for outcome in read_kept()}
    compared: dict[Cell, list[Compared]] = {}
    for cell, points in waves().items():
        for point in points:
            outcome = found.get(Key.of(cell, point.load))
            if outcome is not None:
                came_out = Wave(outcome.ttft_ms * 1e6, tpot_ns(cell, outcome))
                compared.setdefault(cell, []).append(Compared(point, came_out))
    yield from _HEADINGS
    for cell, ones in compared.items():
        yield _row(cell, ones)
    yield ""
    yield f"| TTFT of points with | {HEADINGS} |"
    yield "|---|---|---|---|---|"
    every = [one for ones in compared.values() for one in ones]
    for output_tokens in sorted({one.point.load.output_tokens for one in every}):
        of_length = [one for one in every if one.point.load.output_tokens == output_tokens]
        errors = Errors.of([one.ttft_error for one in of_length])
        yield f"| {output_tokens} output tokens | {errors.cells()} |"


_HEADINGS = (
    f"| cell | {HEADINGS} | TTFT, median | its bias | scale | host | median then | worst then |",
    "|---|---|---|---|---|---|---|---|---|---|---|",
)


def _row(cell: Cell, compared: Sequence[Compared]) -> str:
    pairs = [one.tpots_ns for one in compared]
    ttft = Errors.of([one.ttft_error for one in compared])
    fitted = fit_line(pairs)
    then = Errors.of(errors_without_it(pairs))
    return (
        f"| {cell.label()} | {Errors.of([p / m - 1 for p, m in pairs]).cells()} |"
        f" {ttft.median:.1%} | {ttft.bias:+.1%} | {fitted.scale:.3f} |"
        f" {fitted.host_ns / 1e6:.2f} ms | {then.median:.1%} | {then.worst:.1%} |"
    )


def errors_without_it(pairs: Sequence[tuple[float, float]]) -> list[float]:
    """Of each point, by the line that is fitted to all others."""
    errors = []
    for index, (predicted, measured) in enumerate(pairs):
        others = [*pairs[:index], *pairs[index + 1 :]]
        errors.append(fit_line(others).at(predicted) / measured - 1)
    return errors

"""Interpolation in measurements on grids with holes."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence

from warpserve.predictors.predictor import PredictorError

Points = Mapping[tuple[int, ...], float]
"""Values, by their coordinates."""


class Grid:
    """Linear along each axis, from the first to the last.

    Each point of an axis has grid points of its own along those behind it: profilers refine a grid
    where it is cheap, and leave out what does not fit into memory. Beyond the last point of an axis
    its last piece goes on; before the first, and where there is but one, values are the first's.
    """

    __slots__ = ("_below", "_xs")

    def __init__(self, points: Points) -> None:
        """Points have as many coordinates each. Raises PredictorError where there are none."""
        if not points:
            raise PredictorError("no points were measured")
        self._xs = sorted({point[0] for point in points})
        self._below: list[Grid] | list[float]
        if len(next(iter(points))) == 1:
            self._below = [points[x,] for x in self._xs]
            return
        groups: dict[int, dict[tuple[int, ...], float]] = {x: {} for x in self._xs}
        for point, value in points.items():
            groups[point[0]][point[1:]] = value
        self._below = [Grid(groups[x]) for x in self._xs]

    def at(self, point: Sequence[float]) -> float:
        return self._at(point, 0)

    def _at(self, point: Sequence[float], axis: int) -> float:
        xs, x = self._xs, point[axis]
        last = len(xs) - 1
        piece = min(max(bisect_right(xs, x) - 1, 0), max(last - 1, 0))
        low = self._value(piece, point, axis)
        if x <= xs[piece] or not last:
            return low
        high = self._value(piece + 1, point, axis)
        return low + (high - low) * (x - xs[piece]) / (xs[piece + 1] - xs[piece])

    def _value(self, index: int, point: Sequence[float], axis: int) -> float:
        below = self._below[index]
        return below._at(point, axis + 1) if isinstance(below, Grid) else below


class Steps:
    """One axis, at the next point: kernels work on whole tiles."""

    __slots__ = ("_slope", "_xs", "_ys")

    def __init__(self, points: Points) -> None:
        """Raises PredictorError for fewer than two points."""
        if len(points) < 2:
            raise PredictorError("one point is no curve")
        self._xs = sorted(x for (x,) in points)
        self._ys = [points[x,] for x in self._xs]
        self._slope = (self._ys[-1] - self._ys[-2]) / (self._xs[-1] - self._xs[-2])

    @property
    def last(self) -> int:
        return self._xs[-1]

    def at(self, x: float) -> float:
        """Beyond the last point, on a straight line through the last two."""
        if x > self._xs[-1]:
            return self._ys[-1] + self._slope * (x - self._xs[-1])
        return self._ys[bisect_left(self._xs, x)]

"""Piecewise linear functions through measured points."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence

from warpserve.predictors.predictor import PredictorError


class Curve:
    """y over x, linear between points; beyond the last, and before the first, as the last piece."""

    __slots__ = ("_slopes", "_xs", "_ys")

    def __init__(self, xs: Sequence[float], ys: Sequence[float]) -> None:
        if len(xs) != len(ys) or len(xs) < 2 or sorted(set(xs)) != list(xs):
            raise PredictorError("a curve needs two or more points, in order of x")
        self._xs = xs
        self._ys = ys
        rises = zip(xs, xs[1:], ys, ys[1:], strict=False)
        self._slopes = [(y1 - y0) / (x1 - x0) for x0, x1, y0, y1 in rises]

    def at(self, x: float) -> float:
        return self.total((x,))

    def total(self, xs: Iterable[float]) -> float:
        """The sum of y over all ``xs``: the inner loop of each prediction."""
        own_xs, ys, slopes = self._xs, self._ys, self._slopes
        last, total = len(slopes), 0.0
        for x in xs:
            piece = bisect_right(own_xs, x, 1, last) - 1
            total += ys[piece] + slopes[piece] * (x - own_xs[piece])
        return total


def position(xs: Sequence[float], x: float) -> tuple[int, float]:
    """The piece of ``xs`` that ``x`` is in, and how far along: from 0 to 1, beyond that outside."""
    piece = bisect_right(xs, x, 1, len(xs) - 1) - 1
    return piece, (x - xs[piece]) / (xs[piece + 1] - xs[piece])


def blend(first: Sequence[float], second: Sequence[float], share: float) -> list[float]:
    """``share`` of the second, the rest of the first, point by point."""
    return [a + (b - a) * share for a, b in zip(first, second, strict=True)]

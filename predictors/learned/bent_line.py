"""What one feature adds to a step's duration: a line with bends, which never falls."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise


@dataclass(frozen=True)
class BentLine:
    """0 at 0; beyond the last knot it goes on as before."""

    knots: list[float]
    """Where the slope changes, ascending, above 0."""
    slopes_ns: list[list[float]]
    """Of each piece, one more than knots: what a unit takes as each of several regressions has it;
    none is negative."""

    @property
    def regressions(self) -> int:
        """How many there are; 0 for what is no line."""
        pieces = set(map(len, self.slopes_ns))
        is_sound = (
            len(self.slopes_ns) == len(self.knots) + 1
            and len(pieces) == 1
            and all(length > 0 for length in lengths(self.knots))
            and all(math.isfinite(s) and s >= 0 for piece in self.slopes_ns for s in piece)
        )
        return pieces.pop() if is_sound else 0

    def add_to(self, sums_ns: list[float], value: float) -> None:
        """``sums_ns``: of each regression. ``value``: the feature's, 0 or more."""
        piece = bisect_right(self.knots, value)
        beyond = value - self._starts[piece]
        starts_ns, slopes_ns = self._starts_ns[piece], self.slopes_ns[piece]
        for index, slope_ns in enumerate(slopes_ns):
            sums_ns[index] += starts_ns[index] + slope_ns * beyond

    def at_ns(self, value: float) -> float:
        """By the first of the regressions."""
        sums_ns = [0.0] * len(self.slopes_ns[0])
        self.add_to(sums_ns, value)
        return sums_ns[0]

    @cached_property
    def _starts(self) -> list[float]:
        return [0.0, *self.knots]

    @cached_property
    def _starts_ns(self) -> list[list[float]]:
        """What has come together where each piece starts."""
        sums_ns = [[0.0] * len(self.slopes_ns[0])]
        for length, slopes_ns in zip(lengths(self.knots), self.slopes_ns, strict=False):
            sums_ns.append([a + length * b for a, b in zip(sums_ns[-1], slopes_ns, strict=True)])
        return sums_ns


def lengths(knots: Sequence[float]) -> list[float]:
    """Of the pieces up to the last knot."""
    return [end - begin for begin, end in pairwise([0.0, *knots])]

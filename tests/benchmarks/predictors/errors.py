"""Relative errors, summarised."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import NamedTuple


class Errors(NamedTuple):
    """Of predicted / measured - 1."""

    points: int
    median: float
    """Of the absolute values."""
    worst: float
    """Likewise."""
    bias: float
    """The median with its sign."""

    @classmethod
    def of(cls, errors: Sequence[float]) -> Errors:
        absolute = [abs(error) for error in errors]
        return cls(
            len(errors), statistics.median(absolute), max(absolute), statistics.median(errors)
        )

    def cells(self) -> str:
        """As cells of a table in Markdown."""
        return f"{self.points} | {self.median:.1%} | {self.bias:+.1%} | {self.worst:.1%}"


HEADINGS = "points | median | bias | worst"

"""One row of a page in docs/results."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Figure:
    """One measured figure beside its bar."""

    what: str
    value: float
    unit: str
    bar: float | None

"""What was under way over time, of two runs on one grid.

``running``, ``waiting`` and ``kv_usage`` are what the servers sampled; ``started`` and ``awaited``
what the clients saw: requests past their first token, and requests still before it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from warpserve.bench.real.metrics import begin_s, makespan_s
from warpserve.bench.real.schema import Run

_GRID_S = 0.1
_MOST_POINTS = 2_000
TITLES = {
    "running": "Requests running",
    "waiting": "Requests waiting",
    "kv_usage": "KV cache in use",
    "started": "Requests past their first token",
    "awaited": "Requests before their first token",
}
_SAMPLED = ("running", "waiting", "kv_usage")

_Instants = NDArray[np.float64]


class Curve(BaseModel):
    """One quantity of both, over seconds from the first sending."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    times_s: list[float]
    run: list[float]
    real: list[float]
    run_mean: float
    real_mean: float
    distance: float | None
    """The mean distance of both, over the real mean. None where the real one is always 0."""


def curves_of(run: Run, real: Run) -> dict[str, Curve]:
    """By name, those that both have."""
    spans_s = [span_s for each in (run, real) if (span_s := makespan_s(each))]
    if len(spans_s) < 2:
        return {}
    grid = np.arange(0.0, max(spans_s), max(_GRID_S, max(spans_s) / _MOST_POINTS))
    found = {}
    for name in TITLES:
        ours, theirs = (_values(each, name, grid) for each in (run, real))
        if ours is not None and theirs is not None:
            found[name] = _curve(grid, ours, theirs)
    return found


def _curve(grid: _Instants, ours: _Instants, theirs: _Instants) -> Curve:
    real_mean = float(theirs.mean())
    return Curve(
        times_s=grid.round(3).tolist(),
        run=ours.tolist(),
        real=theirs.tolist(),
        run_mean=float(ours.mean()),
        real_mean=real_mean,
        distance=float(np.abs(ours - theirs).mean()) / real_mean if real_mean else None,
    )


def _values(run: Run, name: str, grid: _Instants) -> _Instants | None:
    return _sampled(run, name, grid) if name in _SAMPLED else _seen(run, name, grid)


def _sampled(run: Run, name: str, grid: _Instants) -> _Instants | None:
    known = [(s.time_s, getattr(s, name)) for s in run.series if getattr(s, name) is not None]
    if not known:
        return None
    times, values = np.asarray(known, float).T
    found: _Instants = np.interp(grid, times, values, left=0.0, right=0.0)
    return found


def _seen(run: Run, name: str, grid: _Instants) -> _Instants | None:
    """None where a request does not say when it was."""
    spans = [
        (start_s, start_s + request.ttft_s, start_s + request.latency_s)
        for request in run.completed
        if (start_s := begin_s(run, request)) is not None
        and request.ttft_s is not None
        and request.latency_s is not None
    ]
    if not spans or len(spans) < len(run.completed):
        return None
    begins, firsts, ends = np.asarray(spans, float).T
    since, until = (firsts, ends) if name == "started" else (begins, firsts)
    return _so_far(since, grid) - _so_far(until, grid)


def _so_far(instants: _Instants, grid: _Instants) -> _Instants:
    return np.searchsorted(np.sort(instants), grid, side="right").astype(float)

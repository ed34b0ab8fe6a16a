"""Errors of a run against real ones, with how sure they are and how far real ones are apart.

An error is the run's figure over the real one, less one. Of several real runs the reference is the
mean of their figures, and their own spread is how far the lowest and the highest are from it.

Intervals are percentiles of a bootstrap over requests (95 %): what another draw of requests from
the same load would have given. Where both runs sent the same requests in the same order, both draw
the same ones. Requests that wait for each other are not independent, and neither are the gaps of
one request: whole requests are drawn, but what queueing adds is not in the interval.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from warpserve.bench.real.metrics import (
    METRICS,
    STATISTICS,
    Values,
    of_request,
    throughputs,
    values_of,
)
from warpserve.bench.real.schema import Run

_DRAWS = 1_000
_INTERVAL = (2.5, 97.5)
_MOST_WEIGHED = 50_000_000
"""Values times draws: fewer draws for many gaps."""
_AT_ONCE = 2_000_000
"""Values times draws, in memory."""


class Figure(BaseModel):
    """One statistic of one metric, in seconds; a throughput in its own unit."""

    model_config = ConfigDict(extra="forbid", frozen=True, ser_json_inf_nan="strings")

    run: float
    real: float
    error: float
    error_low: float | None = None
    error_high: float | None = None
    spread_low: float | None = None
    """Of the real runs about their mean, where there are several."""
    spread_high: float | None = None


class Metric(BaseModel):
    """One metric of both."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    run_values: int
    real_values: int
    statistics: dict[str, Figure]
    ks_distance: float | None = None
    """The largest distance of the two distributions (Kolmogorov, Smirnov), 0 to 1."""


def metrics_of(run: Run, reals: Sequence[Run], seed: int = 0) -> dict[str, Metric]:
    """By name, those that all of them have, from their requests or else as their tools say."""
    found = {}
    for metric in METRICS:
        ours, theirs = values_of(run, metric), [values_of(real, metric) for real in reals]
        if len(ours) and all(len(values) for values in theirs):
            found[metric] = _of_values(run, reals, metric, ours, theirs, seed)
        else:
            reported = _of_reports(run, reals, metric)
            if reported:
                found[metric] = Metric(run_values=0, real_values=0, statistics=reported)
    return found


def throughput_of(run: Run, reals: Sequence[Run]) -> dict[str, Figure]:
    """By name, those that all of them have."""
    ours, theirs = throughputs(run), [throughputs(real) for real in reals]
    return {
        name: _figure(value, [figures[name] for figures in theirs])
        for name, value in ours.items()
        if all(name in figures for figures in theirs)
    }


def ks_distance(ours: Values, theirs: Values) -> float:
    """The largest difference of the shares of values that are at most so large."""
    both = np.concatenate([ours, theirs])
    a, b = (
        np.searchsorted(np.sort(values), both, side="right") / len(values)
        for values in (ours, theirs)
    )
    return float(np.abs(a - b).max())


def are_paired(run: Run, real: Run) -> bool:
    """Whether both completed the same requests in the same order, by their lengths."""
    ours, theirs = (
        [(request.input_tokens, request.output_tokens) for request in each.completed]
        for each in (run, real)
    )
    return ours == theirs


def _of_values(
    run: Run, reals: Sequence[Run], metric: str, ours: Values, theirs: list[Values], seed: int
) -> Metric:
    intervals = _intervals(run, reals[0], metric, seed) if len(reals) == 1 else {}
    return Metric(
        run_values=len(ours),
        real_values=sum(map(len, theirs)),
        statistics={
            name: _figure(
                statistic(ours), [statistic(values) for values in theirs], intervals.get(name)
            )
            for name, statistic in STATISTICS.items()
        },
        ks_distance=ks_distance(ours, np.concatenate(theirs)),
    )


def _of_reports(run: Run, reals: Sequence[Run], metric: str) -> dict[str, Figure]:
    ours, theirs = _reported(run, metric), [_reported(real, metric) for real in reals]
    return {
        name: _figure(ours[name], [each[name] for each in theirs])
        for name in STATISTICS
        if name in ours and all(name in each for each in theirs)
    }


def _reported(run: Run, metric: str) -> Mapping[str, float]:
    values = values_of(run, metric)
    if len(values):
        return {name: statistic(values) for name, statistic in STATISTICS.items()}
    return run.reported_s.get(metric, {})


def _figure(
    ours: float, theirs: Sequence[float], interval: tuple[float, float] | None = None
) -> Figure:
    reference = float(np.mean(theirs))
    has_spread = len(theirs) > 1
    return Figure(
        run=ours,
        real=reference,
        error=_error(ours, reference),
        error_low=None if interval is None else interval[0],
        error_high=None if interval is None else interval[1],
        spread_low=_error(min(theirs), reference) if has_spread else None,
        spread_high=_error(max(theirs), reference) if has_spread else None,
    )


def _error(ours: float, reference: float) -> float:
    """Infinite beside a real 0, unless it is 0, too."""
    if reference == 0:
        return 0.0 if ours == 0 else math.inf
    return ours / reference - 1


def _intervals(run: Run, real: Run, metric: str, seed: int) -> dict[str, tuple[float, float]]:
    """Of the errors of all statistics."""
    ours, theirs = _Clusters.of(run, metric), _Clusters.of(real, metric)
    draws = max(100, min(_DRAWS, _MOST_WEIGHED // max(len(ours.values), len(theirs.values))))
    draw = np.random.default_rng(seed)
    times = _times_drawn(draw, ours.requests, draws)
    is_paired = are_paired(run, real)
    of_ours = ours.statistics(times)
    of_theirs = theirs.statistics(
        times if is_paired else _times_drawn(draw, theirs.requests, draws)
    )
    found = {}
    for name, values in of_ours.items():
        is_known = (of_theirs[name] > 0) & np.isfinite(values)
        if is_known.any():
            errors = values[is_known] / of_theirs[name][is_known] - 1
            low, high = np.percentile(errors, _INTERVAL)
            found[name] = (float(low), float(high))
    return found


def _times_drawn(draw: np.random.Generator, requests: int, draws: int) -> NDArray[np.int64]:
    """How often each request is taken: a row for each of the ``draws``."""
    return draw.multinomial(requests, np.full(requests, 1 / requests), size=draws)


class _Clusters:
    """The values of a metric in their order, each with the request that it is of."""

    def __init__(self, values: Values, owners: NDArray[np.int64], requests: int) -> None:
        order = np.argsort(values, kind="stable")
        self.values = values[order]
        self._owners = owners[order]
        self.requests = requests

    @classmethod
    def of(cls, run: Run, metric: str) -> _Clusters:
        by_request = [of_request(request, metric) for request in run.completed]
        owners = np.repeat(np.arange(len(by_request)), [len(values) for values in by_request])
        return cls(values_of(run, metric), owners, len(by_request))

    def statistics(self, times: NDArray[np.int64]) -> dict[str, Values]:
        """By name, one for each row of ``times``; NaN where a draw has no value."""
        rows = max(1, _AT_ONCE // len(self.values))
        parts = [self._of_rows(times[at : at + rows]) for at in range(0, len(times), rows)]
        return {name: np.concatenate([part[name] for part in parts]) for name in STATISTICS}

    def _of_rows(self, times: NDArray[np.int64]) -> dict[str, Values]:
        upto = np.cumsum(times[:, self._owners], axis=1)
        total = upto[:, -1:].astype(float)
        total[total == 0] = np.nan
        weights = np.diff(upto, axis=1, prepend=0)
        found: dict[str, Values] = {"mean": weights @ self.values / total[:, 0]}
        for name in STATISTICS.keys() - {"mean"}:
            is_reached = upto >= int(name.removeprefix("p")) / 100 * total
            values = self.values[is_reached.argmax(axis=1)]
            found[name] = np.where(np.isnan(total[:, 0]), np.nan, values)
        return found

"""The comparison's plots, as SVG: a solid black line is real, a dashed one the run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from warpserve.bench.compare.curves import TITLES as CURVES
from warpserve.bench.compare.curves import Curve
from warpserve.bench.compare.figures import Metric
from warpserve.bench.real.metrics import TITLES, Values
from warpserve.bench.report.plots import cumulative, new_figure, svg

_REAL: dict[str, Any] = {"color": "black", "linestyle": "-", "linewidth": 1.3}
_OTHER_REAL: dict[str, Any] = {"color": "0.65", "linestyle": "-", "linewidth": 1.0}
_RUN: dict[str, Any] = {"color": "#b3261e", "linestyle": (0, (4, 2)), "linewidth": 1.5}
_UNITS = {"kv_usage": "share of blocks"}


def cdf(metric: str, run: Values, reals: Sequence[Values]) -> str:
    """The share of values that are at most so large, up to P99.9."""
    figure, axes = new_figure()
    for index, values in enumerate(reals):
        style = _REAL if index == 0 else _OTHER_REAL
        _steps(axes, values, "real" if index == 0 else None, style)
    _steps(axes, run, "run", _RUN)
    highest = max(float(np.percentile(values, 99.9)) for values in (run, *reals))
    axes.set(xlabel=f"{TITLES[metric]}, ms", ylabel="share at most so large", ylim=(0, 1.02))
    axes.set_xlim(0, highest * 1e3 * 1.03)
    axes.legend(frameon=False, loc="lower right")
    return svg(figure)


def over_time(name: str, curve: Curve) -> str:
    """What was under way, of both."""
    figure, axes = new_figure()
    axes.plot(curve.times_s, curve.real, label="real", **_REAL)
    axes.plot(curve.times_s, curve.run, label="run", **_RUN)
    axes.set(xlabel="time since the first request, s", ylabel=_UNITS.get(name, "requests"))
    axes.set(xlim=(0, None), ylim=(0, None))
    axes.legend(frameon=False)
    axes.set_title(CURVES[name], fontsize=9, loc="left")
    return svg(figure)


def errors(metrics: dict[str, Metric]) -> str:
    """Of each figure its error, its interval as a bar, and the real runs' own spread behind it."""
    rows = [
        (f"{TITLES[name]} {statistic if statistic == 'mean' else statistic.upper()}", figure)
        for name, metric in metrics.items()
        for statistic, figure in metric.statistics.items()
    ]
    figure, axes = new_figure(height_in=0.4 + 0.19 * len(rows))
    for at, (_, found) in enumerate(rows):
        if found.spread_low is not None and found.spread_high is not None:
            width = (found.spread_high - found.spread_low) * 100
            axes.barh(at, width, left=found.spread_low * 100, height=0.8, color="0.85")
        if found.error_low is not None and found.error_high is not None:
            axes.plot([found.error_low * 100, found.error_high * 100], [at, at], color="0.45")
        axes.plot(found.error * 100, at, "o", color="black", markersize=4)
    axes.axvline(0, color="black", linewidth=0.8)
    axes.set_yticks(range(len(rows)), [label for label, _ in rows])
    axes.invert_yaxis()
    axes.set(xlabel="error against the real run, %")
    return svg(figure)


def _steps(axes: Axes, values: Values, label: str | None, style: dict[str, Any]) -> None:
    ordered, shares = cumulative((values * 1e3).tolist())
    axes.plot(ordered, shares, drawstyle="steps-post", label=label, **style)

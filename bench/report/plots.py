"""The report's plots, as SVG."""

from __future__ import annotations

import io
from collections.abc import Sequence
from itertools import cycle

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from warpserve.bench.report.timeline import Curve, Sampled

# Text stays text, and ids do not change from run to run.
mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "warpserve", "font.size": 9})

_SIZE_IN = (5.2, 2.6)
_LINE_STYLES = ("-", "--", ":")
_MOST_POINTS = 2_000
"""Of a distribution: more are not seen, and make a page heavy."""


def distribution(values_ms: Sequence[float], label: str) -> str:
    """The share of values that are at most so large."""
    figure, axes = new_figure()
    axes.plot(*cumulative(values_ms), drawstyle="steps-post")
    axes.set(xlabel=f"{label}, ms", ylabel="share at most so large", ylim=(0, 1.02))
    axes.set_xlim(0, 1.05 * max(values_ms) or None)
    return svg(figure)


def over_time(curves: dict[str, Sampled], ylabel: str) -> str:
    """Curves over virtual time, a colour and a kind of line each."""
    figure, axes = new_figure()
    for (name, curve), style in zip(curves.items(), cycle(_LINE_STYLES), strict=False):
        axes.plot(curve.times_s, curve.values, label=name, linewidth=1.2, linestyle=style)
    axes.set(xlabel="virtual time, s", ylabel=ylabel)
    axes.set_ylim(bottom=0)
    if len(curves) > 1:
        axes.legend(frameon=False)
    return svg(figure)


def cumulative(values: Sequence[float]) -> tuple[Curve, Curve]:
    """Values in their order, at most 2,000, and the share of all that are at most so large."""
    shares = np.linspace(0.0, 1.0, min(len(values), _MOST_POINTS) + 1)[1:]
    return np.quantile(values, shares, method="inverted_cdf"), shares


def new_figure(height_in: float = _SIZE_IN[1]) -> tuple[Figure, Axes]:
    """As all of ours look."""
    figure = Figure(figsize=(_SIZE_IN[0], height_in), layout="constrained")
    axes = figure.add_subplot()
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def svg(figure: Figure) -> str:
    """To be put into a page."""
    text = io.StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None})
    return text.getvalue().partition("-->")[2] or text.getvalue()

"""A picture of a workload: how long its requests are, and when they come."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from warpserve.bench.workload.plan import Planned
from warpserve.bench.workload.request import WorkloadError

_FORMATS = (".png", ".svg", ".pdf")
_SIZE_IN = (9.0, 3.2)
_BINS = 100


def write_plot(path: Path, title: str, planned: Sequence[Planned]) -> None:
    """Left: distributions of lengths; right: arrivals. Raises WorkloadError for other formats."""
    if path.suffix not in _FORMATS:
        raise WorkloadError(f"{path}: a name that ends in {', '.join(_FORMATS)} is needed")
    figure = Figure(figsize=_SIZE_IN, layout="constrained")
    figure.suptitle(f"{title}: {len(planned):,} requests", fontsize=10)
    lengths, arrivals = figure.subplots(1, 2)
    _plot_lengths(lengths, planned)
    _plot_arrivals(arrivals, [e.arrival_s for e in planned if e.arrival_s is not None])
    for axes in (lengths, arrivals):
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)


def _plot_lengths(axes: Axes, planned: Sequence[Planned]) -> None:
    requests = [entry.request for entry in planned]
    curves = {
        "input": ([request.input_tokens for request in requests], "-"),
        "output": ([request.output_tokens for request in requests], "--"),
    }
    for name, (tokens, style) in curves.items():
        share = np.arange(1, len(tokens) + 1) / len(tokens)
        axes.plot(np.sort(tokens), share, style, label=name, drawstyle="steps-post")
    axes.set(xscale="log", xlabel="tokens of a request", ylabel="share at most so long")
    axes.set_ylim(0, 1.02)
    axes.legend(frameon=False)


def _plot_arrivals(axes: Axes, times_s: Sequence[float]) -> None:
    span_s = max(times_s, default=0.0)
    axes.set(xlabel="time, s", ylabel="arrivals a second")
    if span_s == 0:
        axes.set_title("no arrivals over time", fontsize=9)
        return
    counts, edges = np.histogram(times_s, bins=_BINS, range=(0.0, span_s))
    axes.stairs(counts / (edges[1] - edges[0]), edges)
    axes.set_ylim(bottom=0)

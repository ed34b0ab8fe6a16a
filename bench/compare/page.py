"""The comparison as one page that needs no other file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from warpserve.bench.compare import plots
from warpserve.bench.compare.comparison import Comparison
from warpserve.bench.compare.curves import TITLES as CURVES
from warpserve.bench.real.metrics import TITLES, values_of
from warpserve.bench.real.schema import Run


def write_page(path: Path, comparison: Comparison, runs: Sequence[Run]) -> None:
    """``runs``: those that were compared, the emulated one first."""
    templates = Environment(
        loader=FileSystemLoader(Path(__file__).parent), autoescape=True, undefined=StrictUndefined
    )
    page = templates.get_template("page.html").render(
        comparison=comparison,
        titles=TITLES,
        curve_titles=CURVES,
        verdict=verdict(comparison),
        errors=plots.errors(comparison.metrics) if comparison.metrics else None,
        distributions=distributions_of(comparison, runs),
        curves=curves_of(comparison),
    )
    path.write_text(page)


def verdict(comparison: Comparison) -> str:
    """How far apart they are, in a sentence."""
    parts = []
    for name, metric in comparison.metrics.items():
        mean = metric.statistics.get("mean")
        if mean is not None and name != "itl":
            parts.append(f"mean {TITLES[name]} by {mean.error:+.1%}")
    if "output_tokens" in comparison.throughput:
        parts.append(f"throughput by {comparison.throughput['output_tokens'].error:+.1%}")
    return f"The run differs from the real one in {', '.join(parts)}." if parts else ""


def curves_of(comparison: Comparison) -> dict[str, str]:
    """SVG of each quantity over time, by title."""
    return {CURVES[name]: plots.over_time(name, c) for name, c in comparison.curves.items()}


def distributions_of(comparison: Comparison, runs: Sequence[Run]) -> dict[str, str]:
    """SVG of each metric whose values all runs have, by title."""
    drawn = {}
    for name, metric in comparison.metrics.items():
        values = [values_of(run, name) for run in runs]
        if all(map(len, values)):
            title = f"{TITLES[name]}: distributions, at most {metric.ks_distance:.3f} apart"
            drawn[title] = plots.cdf(name, values[0], values[1:])
    return drawn

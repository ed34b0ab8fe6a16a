"""One of each plot, from a replay: docs/gallery.md shows the files that this writes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from warpserve.bench.compare import plots
from warpserve.bench.compare.comparison import Comparison
from warpserve.bench.compare.page import curves_of, distributions_of
from warpserve.bench.real.formats.run_folder import read_requests
from warpserve.bench.real.read import read_run
from warpserve.bench.report.page import plots_of
from warpserve.bench.run_folder import RunFolder


def write_gallery(replayed: Path, comparison: Comparison, out: Path) -> None:
    """``replayed``: the run folder of a `warpserve replay`; ``out``: of the SVG files."""
    out.mkdir(exist_ok=True)
    for name, drawn in _pictures(replayed, comparison):
        (out / f"{name}.svg").write_text(drawn.strip() + "\n")


def _pictures(replayed: Path, comparison: Comparison) -> Iterator[tuple[str, str]]:
    folder = RunFolder(replayed)
    for title, drawn in plots_of(folder, read_requests(folder)).items():
        yield f"run-{_slug(title)}", drawn
    runs = [read_run(replayed), read_run(replayed / "real.json.gz")]
    yield "beside-errors", plots.errors(comparison.metrics)
    for title, drawn in distributions_of(comparison, runs).items():
        yield f"beside-{_slug(title.partition(':')[0])}", drawn
    for title, drawn in curves_of(comparison).items():
        yield f"beside-{_slug(title)}", drawn


def _slug(title: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")

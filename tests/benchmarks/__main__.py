"""`make bench [PAGE …]`: prints the figures and writes them to docs/results/, a page a subject."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

from rich.table import Table

from tests.benchmarks import nccl, timekeeper, torch_ops, virtual_gpu
from tests.benchmarks.figure import Figure
from tests.benchmarks.page import RESULTS, machine, today
from warpserve.console import console

PAGES: dict[str, tuple[str, Callable[[], Iterator[Figure]]]] = {
    "timekeeper": ("The Timekeeper's figures", timekeeper.figures),
    "virtual-gpu": ("The virtual GPU's figures", virtual_gpu.figures),
    "nccl": ("NCCL's figures", nccl.figures),
    "torch-operators": ("Torch's operators on a virtual GPU", torch_ops.figures),
}


def markdown(title: str, rows: list[Figure]) -> str:
    """The figures as the page in docs/results."""
    lines = [
        f"# {title}",
        "",
        f"Written by `make bench` on {today()}: {machine()}.",
        "Host times, medians; they vary from run to run by some ten per cent.",
        "",
        "| what | figure | bar |",
        "|---|---|---|",
    ]
    for row in rows:
        bar = "" if row.bar is None else f"{row.bar:g} {row.unit}"
        lines.append(f"| {row.what} | {row.value:,.4g} {row.unit} | {bar} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    for page in sys.argv[1:] or PAGES:
        title, figures = PAGES[page]
        table = Table("what", "figure", "bar", title=f"{title}: {machine()}", title_justify="left")
        rows = []
        for row in figures():
            rows.append(row)
            bar = "" if row.bar is None else f"{row.bar:g} {row.unit}"
            table.add_row(row.what, f"{row.value:,.4g} {row.unit}", bar)
        console().print(table)
        RESULTS.mkdir(parents=True, exist_ok=True)
        (RESULTS / f"{page}.md").write_text(markdown(title, rows))


main()

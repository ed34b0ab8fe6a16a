"""`make bench`: prints the figures and writes them to docs/results/timekeeper.md."""

from __future__ import annotations

import datetime
import os
import platform
from pathlib import Path

from rich.table import Table

from tests.benchmarks.timekeeper import ROOT, Figure, figures
from warpserve.console import console

RESULTS = ROOT / "docs" / "results" / "timekeeper.md"


def machine() -> str:
    """The machine in a line, as a reader of the figures needs it."""
    model = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.processor(),
    )
    cores = len(os.sched_getaffinity(0))
    return (
        f"{cores} cores of {model}, Linux {platform.release()}, Python {platform.python_version()}"
    )


def markdown(rows: list[Figure]) -> str:
    """The figures as the page in docs/results."""
    lines = [
        "# The Timekeeper's figures",
        "",
        f"Written by `make bench` on {datetime.date.today():%Y-%m-%d}: {machine()}.",
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
    table = Table("what", "figure", "bar", title=machine(), title_justify="left")
    rows = []
    for row in figures():
        rows.append(row)
        bar = "" if row.bar is None else f"{row.bar:g} {row.unit}"
        table.add_row(row.what, f"{row.value:,.4g} {row.unit}", bar)
    console().print(table)
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    RESULTS.write_text(markdown(rows))


main()

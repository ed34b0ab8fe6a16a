"""What all pages in docs/results have in common."""

from __future__ import annotations

import datetime
import os
import platform
from pathlib import Path

RESULTS = Path(__file__).parents[2] / "docs" / "results"


def today() -> str:
    return f"{datetime.date.today():%Y-%m-%d}"


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

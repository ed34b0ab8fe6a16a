"""The figures of NCCL: what an all-reduce of 8 bytes between two processes costs the host."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.benchmarks.figure import Figure

CLIENT = Path(__file__).parents[1] / "cuda" / "nccl.py"


def figures() -> Iterator[Figure]:
    """Both figures, of one session."""
    command = ["warpserve", "run", "--gpu", "h100-sxm:2", "--", sys.executable, str(CLIENT)]
    done = subprocess.run([*command, "overhead", "2"], check=True, capture_output=True, text=True)
    alone_ns, in_a_row_ns = json.loads(done.stdout)[0]
    what = "all-reduce of 8 bytes over 2 ranks (processes, through ctypes)"
    yield Figure(f"{what}, each waited for, host time", alone_ns / 1000, "us", None)
    yield Figure(f"{what}, 50 for each wait, host time of one", in_a_row_ns / 1000, "us", None)

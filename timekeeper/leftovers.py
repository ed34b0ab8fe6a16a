"""Ends what a killed Timekeeper leaves behind: its members, wherever they were re-parented to."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import time
from pathlib import Path

_CLOCK_PAGE = re.compile(rb"^\S+ \S+ \S+ \S+ (\d+) +/memfd:warpserve-clock\b", re.MULTILINE)
"""The line of /proc/PID/maps, with the page's inode."""


def clock_of(pid: int) -> int | None:
    """Which session's clock page a process maps: the Timekeeper does, and each member."""
    found = _CLOCK_PAGE.search(Path(f"/proc/{pid}/maps").read_bytes())
    return int(found[1]) if found else None


def processes_of(folder: Path, clock: int | None = None) -> list[int]:
    """The live processes of this user that were started in the session at `folder`.

    A member's environment names its session, and its children inherit it. Programs that set their
    title, as vLLM's engine core does, write it over their environment: these are known by the page
    of their session's `clock`.
    """
    needle = f"WARPSERVE_SESSION={folder}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        # Processes vanish while we look, and those of others cannot be read.
        with contextlib.suppress(OSError):
            named = needle in (entry / "environ").read_bytes().split(b"\0")
            if (named or _has_clock(int(entry.name), clock)) and not _is_dead(entry):
                found.append(int(entry.name))
    return sorted(found)


def kill_leftovers(folder: Path, clock: int | None = None, *, limit_s: float = 10.0) -> list[int]:
    """Kills them all, with those that they start meanwhile. Returns the pids."""
    killed: list[int] = []
    deadline = time.monotonic() + limit_s
    while (left := processes_of(folder, clock)) and time.monotonic() < deadline:
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        killed += [pid for pid in left if pid not in killed]
        time.sleep(0.01)
    return killed


def _has_clock(pid: int, clock: int | None) -> bool:
    return clock is not None and clock_of(pid) == clock


def _is_dead(proc: Path) -> bool:
    state = (proc / "stat").read_text(errors="replace").rpartition(")")[2].split()[0]
    return state in "ZX"

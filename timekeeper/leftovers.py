"""Ends what a killed Timekeeper leaves behind: its members, wherever they were re-parented to."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path


def processes_of(folder: Path) -> list[int]:
    """The live processes of this user that were started in the session at `folder`.

    A member's environment names its session, and its children inherit it.
    """
    needle = f"WARPSERVE_SESSION={folder}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        # Processes vanish while we look, and those of others cannot be read.
        with contextlib.suppress(OSError):
            if needle in (entry / "environ").read_bytes().split(b"\0") and not _is_dead(entry):
                found.append(int(entry.name))
    return sorted(found)


def kill_leftovers(folder: Path, *, limit_s: float = 10.0) -> list[int]:
    """Kills them all, with those that they start meanwhile. Returns the pids."""
    killed: list[int] = []
    deadline = time.monotonic() + limit_s
    while (left := processes_of(folder)) and time.monotonic() < deadline:
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        killed += [pid for pid in left if pid not in killed]
        time.sleep(0.01)
    return killed


def _is_dead(proc: Path) -> bool:
    state = (proc / "stat").read_text(errors="replace").rpartition(")")[2].split()[0]
    return state in "ZX"

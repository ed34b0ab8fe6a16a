"""Shared memory with names, which outlives whoever made it: gone when its session is.

A member that is killed unlinks nothing. So members note the names of what they make, in a file of
the session's, and the launcher looks through them at the end.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

NAMED_MEMORY = Path("/dev/shm")  # where shm_open(3) has its files
_NOTES = "shared-memory"


def note(session: Path, name: str) -> None:
    """For a member. ``session``: the session's folder."""
    # One write of few bytes at the end of a file is not mixed with others.
    fd = os.open(session / _NOTES, os.O_WRONLY | os.O_APPEND)
    try:
        os.write(fd, os.fsencode(name) + b"\n")
    finally:
        os.close(fd)


class NotedMemory:
    """For the launcher. The Timekeeper removes the session's folder: what is open stays."""

    def __init__(self, session: Path) -> None:
        self._fd = os.open(session / _NOTES, os.O_RDONLY | os.O_CREAT | os.O_EXCL, 0o600)

    def remove(self, *, where: Path = NAMED_MEMORY) -> list[str]:
        """To be called once, when no member is left. Returns the names of what was still there."""
        with os.fdopen(self._fd, "rb") as file:
            names = set(os.fsdecode(file.read()).splitlines())
        removed = []
        for name in sorted(names - {"", ".", ".."}):
            if "/" in name:
                continue  # no name of shared memory
            with contextlib.suppress(FileNotFoundError, PermissionError):
                (where / name).unlink()
                removed.append(name)
        return removed

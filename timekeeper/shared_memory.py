"""Shared memory with names, which outlives whoever made it: gone when its session is.

A member that is killed unlinks nothing. So members note the names of what they make, in the
session's folder, and the launcher looks through them at the end.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

NAMED_MEMORY = Path("/dev/shm")  # where shm_open(3) has its files
_NOTES = "shared-memory"


def note(folder: Path, name: str) -> None:
    """``folder``: the session's. May be called by several processes at once."""
    # One write of few bytes at the end of a file is not mixed with others.
    fd = os.open(folder / _NOTES, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(fd, os.fsencode(name) + b"\n")
    finally:
        os.close(fd)


def remove_noted(folder: Path, *, where: Path = NAMED_MEMORY) -> list[str]:
    """To be called when no member is left. Returns the names of what was still there."""
    try:
        names = os.fsdecode((folder / _NOTES).read_bytes()).splitlines()
    except FileNotFoundError:
        return []
    removed = []
    for name in sorted(set(names)):
        if not name or "/" in name or name in (".", ".."):
            continue  # no name of shared memory
        with contextlib.suppress(FileNotFoundError, PermissionError):
            (where / name).unlink()
            removed.append(name)
    return removed

"""What can go wrong between a user's words and a described GPU.

CatalogueError
├── UnknownNameError    a kind or box that no file describes
├── FileError           a file that is missing, unreadable or wrong
└── SpecError           "h100-sxm:8" said wrongly, or more GPUs than a box holds
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path

from warpserve.errors import WarpserveError


class CatalogueError(WarpserveError):
    """Base of all errors that the catalogue raises; the message says what to do."""


class UnknownNameError(CatalogueError):
    """No file describes a kind or box of this name."""

    def __init__(self, what: str, name: str, known: Iterable[str]) -> None:
        choices = sorted(known)
        super().__init__(f"No {what} is called {name!r}.{did_you_mean(name, choices)}")
        self.name = name


class FileError(CatalogueError):
    """A file of the catalogue is missing, unreadable or wrong."""

    def __init__(self, path: Path, problems: Iterable[str]) -> None:
        super().__init__(f"{path}:\n" + "\n".join(f"  {problem}" for problem in problems))
        self.path = path


class SpecError(CatalogueError):
    """A GPU specification that cannot be understood or satisfied."""


def did_you_mean(name: str, choices: Iterable[str]) -> str:
    """A sentence with the nearest choice, or with all of them; starts with a space."""
    known = list(choices)
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    if near:
        return f" Did you mean {near[0]!r}?"
    return f" Known: {', '.join(known)}." if known else ""

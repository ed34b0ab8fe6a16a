"""Where the command line prints."""

from __future__ import annotations

import sys

from rich.console import Console

_WIDTH_OF_FILES = 160


def console(*, stderr: bool = False) -> Console:
    """A console as wide as the terminal, or wide enough for our tables where there is none."""
    is_terminal = (sys.stderr if stderr else sys.stdout).isatty()
    return Console(stderr=stderr, highlight=False, width=None if is_terminal else _WIDTH_OF_FILES)

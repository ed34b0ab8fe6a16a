"""Where the command line prints, and how it says that it cannot go on."""

from __future__ import annotations

import sys
from typing import NoReturn

import typer
from rich.console import Console

_WIDTH_OF_FILES = 160
_EXIT_USAGE = 2


def console(*, stderr: bool = False) -> Console:
    """A console as wide as the terminal, or wide enough for our tables where there is none."""
    is_terminal = (sys.stderr if stderr else sys.stdout).isatty()
    return Console(stderr=stderr, highlight=False, width=None if is_terminal else _WIDTH_OF_FILES)


def fail(message: object, exit_code: int = _EXIT_USAGE) -> NoReturn:
    """Ends the command with one line on stderr."""
    print(f"warpserve: {message}", file=sys.stderr)
    raise typer.Exit(exit_code)

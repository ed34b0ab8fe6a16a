"""Options that several commands have, said once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

EnginePython = Annotated[Path | None, typer.Option(help="the Python of an environment of your own")]
Out = Annotated[Path | None, typer.Option(help="the run folder [runs/DATE-TIME]")]

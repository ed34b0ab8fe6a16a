"""What `warpserve import --out` wrote."""

from __future__ import annotations

from pathlib import Path

from warpserve.bench.real.files import content_of, read_written
from warpserve.bench.real.schema import Run

NAME = "warpserve-run"
WHAT = "what `warpserve import --out FILE` wrote"

_BEGINNING = b'{"schema_version":'


def recognises(path: Path) -> bool:
    return not path.is_dir() and content_of(path).startswith(_BEGINNING)


def read(path: Path) -> list[Run]:
    """Raises ImportFailed."""
    return [read_written(path)]

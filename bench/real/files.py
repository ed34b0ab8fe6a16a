"""Runs on disk: one JSON document, compressed where its name ends in .gz."""

from __future__ import annotations

import gzip
import hashlib
import zlib
from pathlib import Path

from pydantic import ValidationError

from warpserve.bench.real.schema import Run, Source
from warpserve.errors import WarpserveError


class ImportFailed(WarpserveError):
    """A file is not what it should be; the message names the file, the field and the choices."""


def content_of(path: Path) -> bytes:
    """Uncompressed. Raises ImportFailed where it cannot be read."""
    try:
        content = path.read_bytes()
        return gzip.decompress(content) if path.suffix == ".gz" else content
    except (OSError, EOFError, zlib.error) as error:
        raise ImportFailed(f"cannot read {path}: {error}") from None


def source_of(path: Path, format_name: str, tool_version: str | None = None) -> Source:
    """The provenance of a file: the hash is of its content, not of how it is compressed."""
    return Source(
        name=path.name,
        sha256=hashlib.sha256(content_of(path)).hexdigest(),
        format=format_name,
        tool_version=tool_version,
    )


def write_run(path: Path, run: Run) -> None:
    """The same run gives the same bytes."""
    content = run.model_dump_json(exclude_defaults=True, exclude={"schema_version"})
    document = f'{{"schema_version":{run.schema_version},{content[1:]}\n'.encode()
    path.write_bytes(gzip.compress(document, mtime=0) if path.suffix == ".gz" else document)


def read_written(path: Path) -> Run:
    """What `write_run` wrote. Raises ImportFailed."""
    try:
        return Run.model_validate_json(content_of(path))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise ImportFailed(f"{path} is no run of warpserve: {where}: {first['msg']}") from None

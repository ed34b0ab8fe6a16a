"""The installed engine environments, as they lie in the user's cache folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from warpserve.cache import cache_folder
from warpserve.patches.engines.requirement import EngineError, EngineRequirement

_RECORD = "warpserve-engine.json"


class Engine(BaseModel):
    """One environment: its record, written when all of it is there."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    engine: str
    version: str
    python: Path
    path: Path

    @property
    def requirement(self) -> EngineRequirement:
        return EngineRequirement(self.engine, self.version)


class EngineStore:
    """The folder of all environments; ``$WARPSERVE_CACHE/engines`` if none is given."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or cache_folder() / "engines"

    def __iter__(self) -> Iterator[Engine]:
        for record in sorted(self.folder.glob(f"*/{_RECORD}")):
            yield _read(record)

    def find(self, requirement: EngineRequirement) -> Engine | None:
        record = self.path_of(requirement) / _RECORD
        return _read(record) if record.exists() else None

    def get(self, requirement: EngineRequirement) -> Engine:
        """Raises EngineError, saying how to install it, where it is not there."""
        engine = self.find(requirement)
        if engine is None:
            raise EngineError(
                f"{requirement} is not installed: run `warpserve engine install {requirement}`"
            )
        return engine

    def path_of(self, requirement: EngineRequirement) -> Path:
        return self.folder / f"{requirement.engine}-{requirement.version}"

    def add(self, engine: Engine) -> None:
        """From now on it is there."""
        (engine.path / _RECORD).write_text(engine.model_dump_json(indent=2) + "\n")

    def forget(self, engine: Engine) -> None:
        (engine.path / _RECORD).unlink(missing_ok=True)


def _read(record: Path) -> Engine:
    try:
        return Engine.model_validate_json(record.read_text())
    except ValidationError as error:
        raise EngineError(
            f"{record} is not a record of this warpserve ({error.error_count()} errors); "
            f"remove {record.parent} and install again"
        ) from None

"""Which engine, in which version: ``vllm==0.24.0``."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import tomllib
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version
from pydantic import BaseModel, ConfigDict, TypeAdapter

from warpserve.errors import WarpserveError

_VERSIONS = Path(__file__).with_name("versions.toml")


class EngineError(WarpserveError):
    """An engine environment could not be found, made or removed."""


class KnownVersion(BaseModel):
    """What ``versions.toml`` says of one version."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    torch: str
    cuda: int
    extras: tuple[str, ...] = ()
    pythons: tuple[str, ...]
    disk_bytes: int


@cache
def known_versions() -> dict[str, dict[str, KnownVersion]]:
    """By engine, then version."""
    table = TypeAdapter(dict[str, dict[str, KnownVersion]])
    return table.validate_python(tomllib.loads(_VERSIONS.read_text()))


@dataclass(frozen=True)
class EngineRequirement:
    """An engine in one exact version."""

    engine: str
    version: str

    @classmethod
    def parse(cls, text: str) -> EngineRequirement:
        """From ``ENGINE==VERSION``. Raises EngineError with the choices for anything else."""
        try:
            requirement = Requirement(text)
            pins = list(requirement.specifier)
            if len(pins) != 1 or pins[0].operator != "==" or requirement.extras:
                raise InvalidRequirement("not one exact version")
            version = str(Version(pins[0].version))
        except (InvalidRequirement, InvalidVersion):
            raise EngineError(f"{text!r}: say ENGINE==VERSION, one of {_choices()}") from None
        engine = canonicalize_name(requirement.name)
        if engine not in known_versions():
            raise EngineError(f"{text!r}: no such engine; warpserve runs {_choices()}")
        return cls(engine, version)

    @property
    def known(self) -> KnownVersion | None:
        """None: a version that warpserve has not been tried with."""
        return known_versions()[self.engine].get(self.version)

    def require_known(self) -> KnownVersion:
        if self.known is None:
            raise EngineError(
                f"{self} is not a version that warpserve knows ({_choices()}); "
                "--insist takes it as it is"
            )
        return self.known

    @property
    def for_pip(self) -> str:
        """With the extras that warpserve needs of it."""
        extras = self.known.extras if self.known else ()
        return f"{self.engine}[{','.join(extras)}]=={self.version}" if extras else str(self)

    def __str__(self) -> str:
        return f"{self.engine}=={self.version}"


def _choices() -> str:
    return ", ".join(
        f"{engine}=={version}"
        for engine, versions in known_versions().items()
        for version in versions
    )

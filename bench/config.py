"""What a user says of an experiment, in a file or on the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from warpserve.errors import WarpserveError
from warpserve.timekeeper.options import Clock


class ConfigError(WarpserveError):
    """An experiment's description is wrong; the message names each mistake."""


class RunConfig(BaseModel):
    """One experiment: an engine on virtual GPUs, a client, a workload."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    engine: str = "vllm==0.24.0"
    engine_python: Path | None = None
    """An environment of the user's own, in place of the installed one."""
    model: str
    gpu: str
    predictor: str
    workload: str = "sharegpt"
    rate: Annotated[float, Field(gt=0)] = 4.0
    """Requests a second, as a Poisson process; infinity: all at once."""
    max_concurrency: Annotated[int, Field(ge=1)] | None = None
    num_requests: Annotated[int, Field(ge=1)] = 200
    seed: Annotated[int, Field(ge=0)] = 0
    metrics_interval_s: Annotated[float, Field(gt=0)] = 1.0
    clock: Clock = Clock.EXACT
    engine_flags: tuple[str, ...] = ()

    @classmethod
    def read(cls, file: Path | None, **said: object) -> Self:
        """From a YAML file, with what was ``said`` on the command line (not None) above it."""
        try:
            written = yaml.safe_load(file.read_text()) if file is not None else {}
        except (OSError, yaml.YAMLError) as error:
            raise ConfigError(f"cannot read {file}: {error}") from None
        if not isinstance(written, dict):
            raise ConfigError(f"{file}: names and values are needed, as in `model: llama-3.1-8b`")
        values = written | {name: value for name, value in said.items() if value is not None}
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            raise ConfigError("; ".join(map(_mistake, error.errors()))) from None


def _mistake(error: object) -> str:
    assert isinstance(error, dict)
    name = ".".join(map(str, error["loc"]))
    if error["type"] == "missing":
        return f"{name} is missing"
    if error["type"] == "extra_forbidden":
        return f"{name} is not known; known are {', '.join(RunConfig.model_fields)}"
    return f"{name}: {error['msg']}, not {error['input']!r}"

"""What a user says of an experiment, in a file or on the command line."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal, Self

import yaml
from packaging.utils import canonicalize_name
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from warpserve.bench.workload.arrivals import LARGEST_SEED, Arrival
from warpserve.bench.workload.request import WorkloadError
from warpserve.errors import WarpserveError
from warpserve.patches.engines import EngineError, EngineRequirement
from warpserve.patches.engines.requirement import known_versions
from warpserve.timekeeper.options import Clock

STOCK_SAMPLING: dict[str, dict[str, float]] = {"sglang": {"temperature": 0.0}}
"""What an engine's own client asks of sampling; that of vLLM asks for nothing."""

CONFIG_FLAG = "--config"
"""Of either engine: a file that says flags."""
_DRAFTING_FLAG = {"vllm": "--speculative-config", "sglang": "--speculative-algorithm"}
DRAFTING_FLAGS = (
    *_DRAFTING_FLAG.values(),
    *("-sc", "--spec-method", "--spec-model", "--spec-tokens"),  # vLLM's, too
)
"""With one of them an engine decodes speculatively."""


class ConfigError(WarpserveError):
    """An experiment's description is wrong; the message names each mistake."""


class EngineConfig(BaseModel):
    """An engine on virtual GPUs."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    engine: str = "vllm==0.24.0"
    engine_python: Path | None = None
    """An environment of the user's own, in place of the installed one."""
    model: str
    gpu: str
    predictor: str
    strict: bool = False
    """A step that the predictor extrapolates is an error."""
    acceptance: str | None = None
    """Of drafted tokens: a rate for each position."""
    ghost_ranks: bool = True
    """One worker stands for a tensor-parallel group, where that is safe."""
    kv_tokens: Annotated[int, Field(ge=1)] | None = None
    """The size of the KV cache; None: what the engine makes of the GPUs' memory."""
    seed: Annotated[int, Field(ge=0, le=LARGEST_SEED)] = 0
    clock: Clock = Clock.EXACT
    engine_flags: tuple[str, ...] = ()
    engine_env: dict[str, str] = {}
    """Environment variables of the engine, such as VLLM_ATTENTION_BACKEND."""

    @field_validator("engine")
    @classmethod
    def _is_an_engine(cls, engine: str) -> str:
        """In one spelling; without a version as it is, as ``engine_python`` has one of its own."""
        if (name := canonicalize_name(engine)) in known_versions():
            return name
        try:
            return str(EngineRequirement.parse(engine))
        except EngineError as error:
            raise ValueError(f"engine: {error}") from None

    @model_validator(mode="after")
    def _has_drafts_to_accept(self) -> Self:
        if self.acceptance is not None and self.flag(*DRAFTING_FLAGS, CONFIG_FLAG) is None:
            flag = _DRAFTING_FLAG[self.engine_name]
            raise ValueError(f"acceptance: is of drafts: say {flag}, too, among the engine's flags")
        return self

    @property
    def engine_name(self) -> str:
        """vllm or sglang."""
        return self.engine.partition("==")[0]

    @classmethod
    def of(cls, **values: object) -> Self:
        """Raises ConfigError."""
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            raise ConfigError("; ".join(_mistake(cls, e) for e in error.errors())) from None

    def flag(self, *names: str) -> str | None:
        """The value of one of the engine's flags, which has these names; None without it.

        Of several the last, which is the one that holds.
        """
        for position, given in reversed(list(enumerate(self.engine_flags))):
            name, is_joined, value = given.partition("=")
            if _is_one_of(names, name.partition(".")[0]):
                return value if is_joined else "".join(self.engine_flags[position + 1 :][:1])
        return None


def _is_one_of(names: Sequence[str], given: str) -> bool:
    """As the engines read it: to argparse the beginning of a name is enough, and to vLLM an
    underscore in it is a dash."""
    dashed = given.replace("_", "-")
    return bool(dashed.strip("-")) and any(name.startswith(dashed) for name in names)


class RunConfig(EngineConfig):
    """One experiment: an engine on virtual GPUs, a client, a workload."""

    workload: str = "sharegpt"
    arrival: str = "poisson"
    """When requests come: ``warpserve.bench.workload.arrivals.Arrival``."""
    rate: Annotated[float, Field(gt=0)] | None = None
    """Requests a second, where arrivals have one (4 unless said); infinity: all at once."""
    rate_scale: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0
    """How many times as fast recorded arrivals come."""
    max_concurrency: Annotated[int, Field(ge=1)] | None = None
    num_requests: Annotated[int, Field(ge=1)] = 200
    temperature: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    """What requests ask of sampling; None: what the engine's own client asks. Of vLLM's that is
    nothing, so that the model's generation_config.json holds; of SGLang's, temperature 0."""
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    top_k: Annotated[int, Field(ge=1)] | None = None
    client: Literal["stock", "own"] | None = None
    """Who sends; None: the engine's own client where it can."""
    fast: bool = False
    """Without streaming: the engine's step log tells when tokens came."""
    metrics_interval_s: Annotated[float, Field(gt=0)] = 1.0

    @property
    def metrics_interval_ns(self) -> int:
        return max(1, round(self.metrics_interval_s * 1e9))

    @classmethod
    def read(cls, file: Path | None, **said: object) -> Self:
        """From a YAML file, with what was ``said`` on the command line (not None) above it."""
        try:
            written = yaml.safe_load(file.read_text("utf-8")) if file is not None else {}
        except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
            raise ConfigError(f"cannot read {file}: {error}") from None
        if not isinstance(written, dict) or not all(isinstance(name, str) for name in written):
            raise ConfigError(f"{file}: names and values are needed, as in `model: llama-3.1-8b`")
        return cls.of(
            **written | {name: value for name, value in said.items() if value is not None}
        )

    @property
    def sampling(self) -> dict[str, float]:
        """What requests ask of sampling, as their fields."""
        asked = {"temperature": self.temperature, "top_p": self.top_p, "top_k": self.top_k}
        said = {name: value for name, value in asked.items() if value is not None}
        return STOCK_SAMPLING.get(self.engine_name, {}) | said

    @property
    def arrivals(self) -> Arrival:
        return Arrival.parse(self.arrival)

    @property
    def concurrency(self) -> int | None:
        """How many requests may be under way; None: any number."""
        if self.arrivals.kind == "closed":
            return int(self.arrivals.number or 0)
        return self.max_concurrency

    @model_validator(mode="before")
    @classmethod
    def _has_a_rate(cls, values: dict[str, object]) -> dict[str, object]:
        try:
            arrival = Arrival.parse(str(values.get("arrival", "poisson")))
        except WorkloadError as error:
            raise ValueError(str(error)) from None
        return values | {"rate": arrival.rate_of(None)} if values.get("rate") is None else values

    @model_validator(mode="after")
    def _arrivals_agree(self) -> Self:
        try:
            self.arrivals.rate_of(self.rate, self.rate_scale)
        except WorkloadError as error:
            raise ValueError(str(error)) from None
        if self.arrivals.kind == "closed" and self.max_concurrency is not None:
            raise ValueError("max_concurrency: the arrival closed says it already")
        return self

    @model_validator(mode="after")
    def _can_be_fast(self) -> Self:
        if self.fast and self.clock is not Clock.EXACT:
            raise ValueError("fast needs the clock `exact`, in which HTTP takes no virtual time")
        if self.fast and self.flag(CONFIG_FLAG) is not None:
            raise ValueError(f"fast has to see the engine's flags: say them without {CONFIG_FLAG}")
        if self.fast and (flag := self._not_fast()):
            raise ValueError(f"fast cannot tell when tokens came with {flag}")
        return self

    def _not_fast(self) -> str | None:
        """A flag under which a token does not come when a worker's step ends."""
        names = (
            "--stream-interval",
            *DRAFTING_FLAGS,
            *("--pipeline-parallel-size", "-pp", "--pp-size", "--pp"),
        )
        return next((name for name in names if self.flag(name) is not None), None)


_EXAMPLES = {
    "gpu": "h100-sxm or h200:8 (`warpserve gpus`)",
    "model": "llama-3.1-8b (`warpserve models`)",
    "predictor": "aiconfigurator, analytic or constant:10ms (docs/predictors.md)",
}


def _mistake(model: type[BaseModel], error: object) -> str:
    assert isinstance(error, dict)
    name = ".".join(map(str, error["loc"]))
    if error["type"] == "missing":
        example = f", such as {_EXAMPLES[name]}" if name in _EXAMPLES else ""
        return f"{name} is missing{example}"
    if error["type"] == "extra_forbidden":
        return f"{name} is not known; known are {', '.join(model.model_fields)}"
    if error["type"] == "value_error":
        return str(error["ctx"]["error"])
    return f"{name}: {error['msg']}, not {error['input']!r}"

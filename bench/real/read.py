"""Runs from files: which format it is, which of several runs, and what belongs together."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

from pydantic import ValidationError

from warpserve.bench.real.files import ImportFailed
from warpserve.bench.real.formats import (
    aiperf,
    guidellm,
    inference_perf,
    llmservingsim,
    recording,
    run_folder,
    server_log,
    sglang_bench,
    vllm_bench,
    warpserve_run,
)
from warpserve.bench.real.schema import Deployment, Run, Source, Workload

_Part = TypeVar("_Part", Deployment, Workload)
_NAMES = ("model",)
"""Fields that one thing has several names for: the first file's goes."""


class Format(Protocol):
    """A module of ``formats``."""

    NAME: str
    WHAT: str

    def recognises(self, path: Path) -> bool: ...

    def read(self, path: Path) -> list[Run]: ...


FORMATS: tuple[Format, ...] = (
    run_folder,
    recording,
    llmservingsim,
    warpserve_run,
    vllm_bench,
    sglang_bench,
    guidellm,
    aiperf,
    inference_perf,
    server_log,
)


def read_runs(path: Path, format_name: str | None = None) -> list[Run]:
    """All runs of a file or folder. Raises ImportFailed, with the formats, where it is of none."""
    if not path.exists():
        raise ImportFailed(f"{path} does not exist")
    if format_name is not None:
        return _read(_named(format_name), path)
    for known in FORMATS:
        if known.recognises(path):
            return _read(known, path)
    choices = "; ".join(f"{known.NAME}: {known.WHAT}" for known in FORMATS)
    raise ImportFailed(f"{path} is of no known format. There are: {choices}")


def read_run(path: Path, format_name: str | None = None, select: int | None = None) -> Run:
    """The run of a file or folder; of several the one numbered ``select``, from 1 on."""
    runs = read_runs(path, format_name)
    if not runs:
        raise ImportFailed(f"{path} has no run in it")
    if select is None:
        if len(runs) > 1:
            raise ImportFailed(
                f"{path} has {len(runs)} runs: say which by `warpserve import {path} --select N "
                f"--out FILE`, with N from 1 to {len(runs)}"
            )
        return runs[0]
    if not 1 <= select <= len(runs):
        raise ImportFailed(f"{path} has {len(runs)} runs, not one numbered {select}")
    return runs[select - 1]


def merged(run: Run, others: Sequence[Run]) -> Run:
    """``run`` with what ``others``, such as a server's log, know about the same run.

    Raises ImportFailed where two of them say different things, or have requests, or have steps.
    """
    for other in others:
        if other.requests and run.requests:
            raise ImportFailed("two of the files have requests: they are different runs")
        if other.steps and run.steps:
            raise ImportFailed("two of the files have steps: they are different runs")
        warnings = {**run.warnings, **other.warnings}
        series = run.series
        if other.series and run.requests:
            warnings["samples of a server's log: its clock is not that of the requests"] = len(
                other.series
            )
        elif other.series:
            series = other.series
        run = run.model_copy(
            update={
                "sources": (*run.sources, *other.sources),
                "deployment": _joined(run.deployment, other.deployment),
                "workload": _joined(run.workload, other.workload),
                "requests": run.requests or other.requests,
                "reported_s": run.reported_s or other.reported_s,
                "series": series,
                "steps": run.steps or other.steps,
                "warnings": warnings,
            }
        )
    return run


def with_said(run: Run, said: Sequence[str]) -> Run:
    """With what the user knows: ``deployment.gpu=h100-sxm``, ``workload.cache=cold``.

    Raises ImportFailed for a field that is not there or a value that it can't have.
    """
    parts: dict[str, dict[str, str]] = {"deployment": {}, "workload": {}}
    for assignment in said:
        name, is_said, value = assignment.partition("=")
        if not is_said or name not in _settable():
            raise ImportFailed(f"--set {assignment}: say {' or '.join(_settable())} and =VALUE")
        part, _, field = name.partition(".")
        parts[part][field] = value
    try:
        return run.model_copy(
            update={
                "deployment": _with(run.deployment, parts["deployment"]),
                "workload": _with(run.workload, parts["workload"]),
                "sources": (*run.sources, *(Source.said(assignment) for assignment in said)),
            }
        )
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"]))
        raise ImportFailed(f"--set {field}={first['input']}: {first['msg']}") from None


def _read(known: Format, path: Path) -> list[Run]:
    """Raises ImportFailed, also for a value that no run can have, such as a negative time."""
    try:
        return known.read(path)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"]))
        raise ImportFailed(f"{path}: {field}: {first['msg']}, not {first['input']!r}") from None


def _named(name: str) -> Format:
    for known in FORMATS:
        if name == known.NAME:
            return known
    raise ImportFailed(f"no format {name!r}; there are: {', '.join(f.NAME for f in FORMATS)}")


def _joined(mine: _Part, theirs: _Part) -> _Part:
    update: dict[str, Any] = {}
    for field in type(mine).model_fields:
        ours, other = getattr(mine, field), getattr(theirs, field)
        default = type(mine).model_fields[field].default
        if other in (None, default) or field == "arguments":
            continue
        if ours in (None, default):
            update[field] = other
        elif ours != other and field not in _NAMES:
            raise ImportFailed(f"the files disagree: {field} is {ours!r} here, {other!r} there")
    if isinstance(mine, Deployment) and isinstance(theirs, Deployment):
        update["arguments"] = {**mine.arguments, **theirs.arguments}
    return mine.model_copy(update=update)


def _with(part: _Part, said: dict[str, str]) -> _Part:
    return type(part).model_validate({**part.model_dump(), **said})


def _settable() -> list[str]:
    return [
        *(f"deployment.{name}" for name in Deployment.model_fields),
        *(f"workload.{name}" for name in Workload.model_fields),
    ]

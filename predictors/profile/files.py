"""A profile's folder, read."""

from __future__ import annotations

import csv
import gzip
import io
import math
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from warpserve.predictors.predictor import PredictorError
from warpserve.predictors.profile.grid import Points

_ATTENTION = ("prefill_chunk", "kv_prefill", "n_decode", "kv_decode")
_EXPERT_AXES = ("tokens", "activated_experts")
_TIME = "time_us"
_ONLY_WHOLE = "tp1"


class Profile(NamedTuple):
    """Times are in ns, of one layer."""

    source: str
    dense: dict[str, Points]
    """By layer, over tokens."""
    per_request: dict[str, Points]
    """By layer, over requests."""
    attention: Points
    """Over new and cached tokens of a prefill, the number of decodes, and their context."""
    experts: Points
    """Over tokens and how many experts they hit. Empty: not measured."""


def require_profile(path: str) -> None:
    """Raises PredictorError for what is no such folder, whatever the deployment."""
    top = Path(path)
    if all(_file(folder, "dense") is None for folder in (top, *top.glob("tp*"))):
        raise PredictorError(
            f"{path}: no dense.csv there, nor in tp1, tp2, …, so no profile of LLMServingSim's "
            "profiler"
        )


def read_profile(path: str, tensor_parallel: int, *, whole_experts: bool = False) -> Profile:
    """Raises PredictorError for what is no such folder.

    ``path``: with a folder for each tensor parallel degree, or one of these.
    ``whole_experts``: none is divided, as on a single rank.
    """
    top = Path(path)
    of_degree = top / f"tp{tensor_parallel}"
    folder = of_degree if of_degree.is_dir() else top
    if folder is top and list(top.glob("tp*")):
        degrees = ", ".join(sorted(each.name for each in top.glob("tp*")))
        raise PredictorError(f"{path}: no profile of tp{tensor_parallel}; there are {degrees}")
    return Profile(
        source=f"profile {folder.parent.name}/{folder.name}",
        dense=_by_layer(folder, "dense", "tokens"),
        per_request=_by_layer(folder, "per_sequence", "sequences"),
        attention=_points(folder, "attention", _ATTENTION),
        experts=_experts(*(top / _ONLY_WHOLE, folder) if whole_experts else (folder,)),
    )


def _experts(*folders: Path) -> Points:
    """From the first that has them; none: from nowhere."""
    measured = (each for each in folders if _file(each, "moe") is not None)
    folder = next(measured, None)
    return {} if folder is None else _points(folder, "moe", _EXPERT_AXES)


def _by_layer(folder: Path, name: str, axis: str) -> dict[str, Points]:
    layers: dict[str, dict[tuple[int, ...], float]] = defaultdict(dict)
    for row in _rows(folder, name, (axis,), label="layer"):
        layers[row.label][row.point] = row.duration_ns
    return dict(layers)


def _points(folder: Path, name: str, axes: Sequence[str]) -> Points:
    return {row.point: row.duration_ns for row in _rows(folder, name, axes)}


class _Row(NamedTuple):
    label: str
    point: tuple[int, ...]
    duration_ns: float


def _rows(folder: Path, name: str, axes: Sequence[str], label: str | None = None) -> list[_Row]:
    """Raises PredictorError for a file that is missing, lacks columns, or has no numbers there."""
    file = _file(folder, name)
    if file is None:
        raise PredictorError(f"{folder}: no {name}.csv, so no profile of LLMServingSim's profiler")
    try:
        data = file.read_bytes()
        text = (gzip.decompress(data) if file.suffix == ".gz" else data).decode()
        table = csv.DictReader(io.StringIO(text))
        columns = (*axes, _TIME, *([label] if label else ()))
        missing = [column for column in columns if column not in (table.fieldnames or ())]
        if missing:
            raise PredictorError(f"{file}: no column {', '.join(missing)}")
        return [
            _Row(
                row[label] if label else "",
                tuple(int(row[axis]) for axis in axes),
                _duration_ns(row[_TIME]),
            )
            for row in table
        ]
    except (OSError, EOFError, UnicodeDecodeError, ValueError, TypeError) as error:
        raise PredictorError(f"{file}: {error}") from error


def _file(folder: Path, name: str) -> Path | None:
    found = (folder / f"{name}.csv", folder / f"{name}.csv.gz")
    return next((each for each in found if each.is_file()), None)


def _duration_ns(text: str) -> float:
    duration_us = float(text)
    if not (math.isfinite(duration_us) and duration_us > 0):
        raise ValueError(f"{_TIME} is {text}")
    return duration_us * 1e3

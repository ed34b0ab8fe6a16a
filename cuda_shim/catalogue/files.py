"""Reads the catalogue's files, merges each with its bases, and keeps the source of every value."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import tomllib
from pydantic import ValidationError

from warpserve.cuda_shim.catalogue.errors import (
    CatalogueError,
    FileError,
    UnknownNameError,
    did_you_mean,
)
from warpserve.cuda_shim.catalogue.models import Box, Gpu, Model, Source

DATA = Path(__file__).parent / "data"
PATH_VARIABLE = "WARPSERVE_GPU_PATH"

# Said about one file alone, so never inherited.
_OWN_FIELDS = ("aliases",)
# Follow from the file's name and its [[source]] tables.
_FROM_ELSEWHERE = ("kind", "sources")
# The catalogue's own words and choices: they have no source.
_UNSOURCED = ("attributes", "summary", "aliases", "boxes")

M = TypeVar("M", bound=Model)


def user_folders(environ: Mapping[str, str] | None = None) -> list[Path]:
    """The user's: folders of $WARPSERVE_GPU_PATH, then ~/.config/warpserve/gpus if it exists.

    Raises CatalogueError for a folder of $WARPSERVE_GPU_PATH that is not there.
    """
    env = os.environ if environ is None else environ
    named = [Path(part) for part in env.get(PATH_VARIABLE, "").split(os.pathsep) if part]
    for folder in named:
        if not folder.is_dir():
            raise CatalogueError(f"${PATH_VARIABLE} names {folder}, which is not a folder.")
    config = Path(env.get("XDG_CONFIG_HOME") or Path(env.get("HOME", "~")).expanduser() / ".config")
    own = config / "warpserve" / "gpus"
    return [*named, own] if own.is_dir() else named


class Catalogue:
    """All GPU kinds and boxes. A folder holds `*.toml` for GPUs and `boxes/*.toml` for boxes."""

    def __init__(self, folders: Sequence[Path] | None = None) -> None:
        """`folders`: the user's, beside the built-in files; `user_folders()` if not given."""
        extra = user_folders() if folders is None else list(folders)
        self._gpu_files = _index([DATA / "gpus", *extra])
        self._box_files = _index([DATA / "boxes", *(folder / "boxes" for folder in extra)])
        self._architecture_files = _index([DATA / "architectures"])

    @property
    def kinds(self) -> list[str]:
        """Names of all GPU kinds, sorted."""
        return sorted(self._gpu_files)

    @property
    def boxes(self) -> list[str]:
        """Names of all boxes, sorted."""
        return sorted(self._box_files)

    def gpus(self) -> Iterator[Gpu]:
        """Every kind, in the order of their names."""
        return (self.gpu(kind) for kind in self.kinds)

    def gpu(self, name: str) -> Gpu:
        """The kind of this name or alias; case and `_` for `-` do not matter."""
        wanted = _normal(name)
        kind = wanted if wanted in self._gpu_files else self._aliases.get(wanted)
        if kind is None:
            raise UnknownNameError("GPU", name, [*self.kinds, *self._aliases])
        path = self._gpu_files[kind]
        merged = self._merge(path, ())
        gpu = _validate(Gpu, path, {**merged.values, "kind": kind, "sources": merged.sources})
        for box in gpu.boxes:
            if box not in self._box_files:
                raise FileError(
                    path, [f"boxes: no box is called {box!r}.{did_you_mean(box, self.boxes)}"]
                )
        return gpu

    def box(self, name: str) -> Box:
        """The box of this name."""
        kind = _normal(name)
        if kind not in self._box_files:
            raise UnknownNameError("box", name, self.boxes)
        path = self._box_files[kind]
        return _validate(Box, path, {**_read(path), "kind": kind})

    @cached_property
    def _aliases(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for kind, path in self._gpu_files.items():
            for alias in map(_normal, _read(path).get("aliases", [])):
                if alias in self._gpu_files or alias in found:
                    raise FileError(path, [f"aliases: {alias!r} already names another GPU."])
                found[alias] = kind
        return found

    def _merge(self, path: Path, above: tuple[Path, ...]) -> _Layers:
        """The file's values over those of its base; `above` are the files that led here."""
        if path in above:
            raise FileError(above[0], ["base: the files lead in a circle."])
        table = _read(path)
        for field in _FROM_ELSEWHERE:
            if field in table:
                raise FileError(path, [f"{field}: not written in a file."])
        base = table.pop("base", None)
        entries = table.pop("source", [])
        below = _Layers({}, {}, frozenset())
        if base is not None:
            files = self._architecture_files | self._gpu_files
            if base not in files:
                hint = did_you_mean(str(base), sorted(files))
                raise FileError(path, [f"base: no file is called {base!r}.{hint}"])
            below = self._merge(files[base], (*above, path))
            if base in self._gpu_files:
                below = below.seen_from_another_kind(base)
        is_general = path in self._architecture_files.values()
        return below.topped(path, table, entries, is_general=is_general)


@dataclass(frozen=True)
class _Layers:
    """Files merged so far. Values and sources go by path, as in `attributes.warp_size`."""

    values: dict[str, Any]
    sources: dict[str, Source]
    general: frozenset[str]  # said of an architecture, so true of every kind of it

    def seen_from_another_kind(self, base: str) -> _Layers:
        """What was found on the base's own cards is, for a kind built on it, an assumption."""
        sources = {
            field: source
            if field in self.general or source.status == "assumed"
            else source.model_copy(
                update={"status": "assumed", "cite": f"as the {base}: {source.cite}"}
            )
            for field, source in self.sources.items()
        }
        return replace(self, sources=sources)

    def topped(
        self, path: Path, table: Mapping[str, Any], entries: Any, *, is_general: bool
    ) -> _Layers:
        """With a file on top. Its [[source]] tables speak of inherited values, too."""
        said = _sources(path, entries)
        values = {key: value for key, value in self.values.items() if key not in _OWN_FIELDS}
        values |= table
        if "attributes" in table:
            if not isinstance(table["attributes"], dict):
                raise FileError(path, ["attributes: write them in an [attributes] table."])
            values["attributes"] = self.values.get("attributes", {}) | table["attributes"]
        set_here, fields = _paths(table), _paths(values)
        for pattern in (pattern for source in said for pattern in source.fields):
            if not fnmatch.filter(fields, pattern):
                raise FileError(path, [f"source: {pattern!r} matches no field."])
        unsaid = Source(status="user", cite=f"set in {path.name}", fields=["*"])
        sources = {
            field: _first_match(said, field)
            or (unsaid if field in set_here else self.sources[field])
            for field in fields
        }
        general = self.general | set_here if is_general else self.general - set_here
        return _Layers(values, sources, general)


def _sources(path: Path, entries: Any) -> list[Source]:
    if not isinstance(entries, list):
        raise FileError(path, ["source: write each as a [[source]] table."])
    return [_validate(Source, path, entry) for entry in entries]


def _first_match(sources: Sequence[Source], field: str) -> Source | None:
    matches = (s for s in sources if any(fnmatch.fnmatchcase(field, p) for p in s.fields))
    return next(matches, None)


def _paths(values: Mapping[str, Any]) -> set[str]:
    """The fields that need a source, attributes among them."""
    attributes = {f"attributes.{name}" for name in values.get("attributes", {})}
    return {key for key in values if key not in _UNSOURCED} | attributes


def _normal(name: str) -> str:
    return name.strip().lower().replace("_", "-")


def _index(folders: Sequence[Path]) -> dict[str, Path]:
    """Files by name. The same name twice is an error: which one counts would be a guess."""
    found: dict[str, Path] = {}
    for folder in folders:
        for path in sorted(folder.glob("*.toml")):
            if path.stem != _normal(path.stem):
                raise FileError(path, ["write its name in lower case, with '-' between words."])
            if path.stem in found:
                raise FileError(
                    path, [f"{path.stem!r} is already described by {found[path.stem]}; rename one."]
                )
            found[path.stem] = path
    return found


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise FileError(path, [str(error)]) from error


def _validate(model: type[M], path: Path, values: Any) -> M:
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise FileError(path, (_problem(model, item) for item in error.errors())) from error


def _problem(model: type[Model], item: Any) -> str:
    """One line of pydantic's findings: the field, what is wrong, and the choices."""
    field = ".".join(map(str, item["loc"]))
    if item["type"] == "extra_forbidden":
        return f"{field}: no such field.{did_you_mean(field, sorted(model.model_fields))}"
    message = str(item["msg"]).removeprefix("Value error, ")
    if item["type"] == "missing":
        return f"{field}: missing; write it or name a base that has it."
    return f"{field}: {message}" if field else message

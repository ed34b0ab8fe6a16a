"""Libraries, entry points and types: the list of the CUDA API as typed objects.

The list is plain text beside this file. Reading it validates it: an unknown column, treatment,
type or CUDA major is a :class:`ListError` that names file and row.
"""

from __future__ import annotations

import csv
import enum
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import tomllib

HERE = Path(__file__).resolve().parent
CUDA_MAJORS = (12, 13)
_TYPE_NAME = re.compile(r"\w+_(?:t|st)")


class ListError(ValueError):
    """The list contradicts itself; the message says where and what to correct."""


class Treatment(enum.Enum):
    """What a call of an entry point does."""

    IMPLEMENTED = "implemented"
    """It is written by hand, in the file that :meth:`Library.file_of` names."""

    HARMLESS = "harmless"
    """It succeeds without doing anything; the row's note says why that is right."""

    UNSUPPORTED = "unsupported"
    """It names itself, its caller and what to do, and fails."""


@dataclass(frozen=True)
class Parameter:
    """One parameter: its C type, such as ``const void *``, and its name."""

    type: str
    name: str

    @property
    def is_pointer(self) -> bool:
        return self.type.endswith("*") or "(*)" in self.type

    @classmethod
    def parse(cls, text: str) -> Parameter:
        """Read ``const void *src``, ``size_t count`` or ``void (*fn)(void *)``."""
        function = re.fullmatch(r"(.*\(\*)(\w+)(\).*)", text)
        if function:
            return cls(function[1] + function[3], function[2])
        plain = re.fullmatch(r"(.*?)\s*(\w+)", text)
        if not plain or not plain[1]:
            raise ListError(f"parameter {text!r} is not a type and a name")
        return cls(plain[1], plain[2])

    def __str__(self) -> str:
        if "(*)" in self.type:
            return self.type.replace("(*)", f"(*{self.name})", 1)
        return self.type + ("" if self.type.endswith("*") else " ") + self.name


@dataclass(frozen=True)
class Entry:
    """One entry point: a function that a CUDA library exports.

    A function whose parameters changed between CUDA majors has an entry for each form.
    """

    name: str
    cuda: tuple[int, ...]
    """The CUDA majors that have it in this form."""
    treatment: Treatment
    returns: str
    """C type, or empty where no public header declares the function."""
    parameters: tuple[Parameter, ...]
    variants: tuple[str, ...] = ()
    """Suffixes of further exports of the same form, such as ``_ptsz``."""
    lookup: str = ""
    """``name@version``: ``cuGetProcAddress(name)`` is this from that version of the driver on."""
    zeroes: tuple[str, ...] = ()
    """Output parameters that the harmless default fills with zero."""
    note: str = ""
    """Why it is harmless, or what to do about it when it is unsupported."""

    @property
    def symbols(self) -> tuple[str, ...]:
        """Every name under which it is exported."""
        return (self.name, *(self.name + suffix for suffix in self.variants))

    @property
    def is_declared(self) -> bool:
        return bool(self.returns)

    def row(self) -> dict[str, str]:
        return {
            "name": self.name,
            "cuda": " ".join(map(str, self.cuda)),
            "treatment": self.treatment.value,
            "returns": self.returns,
            "parameters": ", ".join(map(str, self.parameters)),
            "variants": " ".join(self.variants),
            "lookup": self.lookup,
            "zeroes": " ".join(self.zeroes),
            "note": self.note,
        }

    @classmethod
    def from_row(cls, row: dict[str, str]) -> Entry:
        majors = tuple(int(major) for major in row["cuda"].split())
        if not majors or not set(majors) <= set(CUDA_MAJORS):
            raise ListError(f"cuda {row['cuda']!r} is not made of {CUDA_MAJORS}")
        entry = cls(
            name=row["name"],
            cuda=majors,
            treatment=Treatment(row["treatment"]),
            returns=row["returns"],
            parameters=tuple(map(Parameter.parse, split_parameters(row["parameters"]))),
            variants=tuple(row["variants"].split()),
            lookup=row["lookup"],
            zeroes=tuple(row["zeroes"].split()),
            note=row["note"],
        )
        entry._validate()
        return entry

    def _validate(self) -> None:
        if self.treatment is Treatment.HARMLESS and not self.note:
            raise ListError("a harmless entry point needs a note that says why")
        if self.treatment is Treatment.HARMLESS and not self.is_declared:
            raise ListError("no header declares it, so it can't be harmless: what does it return?")
        if self.zeroes and self.treatment is not Treatment.HARMLESS:
            raise ListError("only a harmless entry point has parameters to zero")
        unknown = set(self.zeroes) - {p.name for p in self.parameters if p.is_pointer}
        if unknown:
            raise ListError(f"to zero, but no pointer parameters: {', '.join(sorted(unknown))}")


COLUMNS = [f.name for f in fields(Entry)]


def split_parameters(text: str) -> Iterator[str]:
    """Split at the commas that are not inside the parameter list of a function pointer."""
    depth, start = 0, 0
    for at, char in enumerate(text):
        depth += (char == "(") - (char == ")")
        if char == "," and depth == 0:
            yield text[start:at].strip()
            start = at + 1
    if text[start:].strip():
        yield text[start:].strip()


@dataclass(frozen=True)
class Status:
    """How the functions of a library report an error."""

    type: str
    name: str
    value: int


@dataclass(frozen=True)
class Library:
    """One CUDA library, as described in ``libraries.toml``."""

    id: str
    title: str
    soname: dict[int, str]
    family: re.Pattern[str]
    binaries: re.Pattern[str]
    headers: tuple[str, ...]
    advice: str
    flags: dict[str, list[str]] = field(default_factory=dict)
    declared: tuple[str, ...] = ()
    version: dict[int, str] = field(default_factory=dict)
    status: Status | None = None
    undeclared: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    not_entry_points: tuple[str, ...] = ()
    files: dict[str, str] = field(default_factory=dict)

    def file_of(self, entry: Entry) -> str:
        """The file that defines an implemented entry point, relative to ``cuda_shim/``.

        It is named after the first word of the name without the library's prefix
        (``cuStreamWaitEvent``: ``cuda/stream.cpp``), unless ``files`` gives a home to what the
        name begins with; of several beginnings the longest counts.
        """
        word = re.search(r"[A-Z][a-z0-9]*", entry.name)
        if not word:
            raise ListError(f"{entry.name} has no word to name a file after")
        rest = entry.name[word.start() :]
        beginning = max(filter(rest.startswith, self.files), key=len, default="")
        return f"{self.id}/{self.files.get(beginning, word[0].lower())}.cpp"

    def owns(self, symbol: str) -> bool:
        """Whether the name looks like one of this library's entry points."""
        if not self.family.fullmatch(symbol) or _TYPE_NAME.fullmatch(symbol):
            return False
        return not any(re.fullmatch(pattern, symbol) for pattern in self.not_entry_points)

    def lacks(self, symbol: str) -> bool:
        """Whether software asks for this name in vain on a real GPU, too."""
        return any(re.fullmatch(pattern, symbol) for pattern in self.absent)

    @classmethod
    def from_table(cls, id: str, table: dict[str, Any]) -> Library:
        known = {f.name for f in fields(cls)} - {"id"}
        if unknown := set(table) - known:
            raise ListError(f"libraries.toml: [{id}] has unknown keys {sorted(unknown)}")
        version = table.get("version", {})
        if isinstance(version, str):
            version = {str(major): version.format(major=major) for major in CUDA_MAJORS}
        return cls(
            id=id,
            title=table["title"],
            soname={int(major): name for major, name in table["soname"].items()},
            family=re.compile(table["family"]),
            binaries=re.compile(table["binaries"]),
            headers=tuple(table["headers"]),
            advice=table["advice"],
            flags=table.get("flags", {}),
            declared=tuple(table.get("declared", ())),
            version={int(major): name for major, name in version.items()},
            status=Status(**table["status"]) if "status" in table else None,
            undeclared=tuple(table.get("undeclared", ())),
            absent=tuple(table.get("absent", ())),
            not_entry_points=tuple(table.get("not_entry_points", ())),
            files=dict(table.get("files", {})),
        )


@dataclass(frozen=True)
class Api:
    """The whole list."""

    libraries: dict[str, Library]
    entries: dict[str, list[Entry]]
    """By library id, in order of name."""
    types: dict[str, str]
    """How a type passed by value travels: see :mod:`warpserve.cuda_shim.api.abi`."""

    @cached_property
    def by_symbol(self) -> dict[str, tuple[Library, list[Entry]]]:
        """Every exported name, with its library and its forms."""
        found: dict[str, tuple[Library, list[Entry]]] = {}
        for id, entries in self.entries.items():
            for entry in entries:
                for symbol in entry.symbols:
                    library, forms = found.setdefault(symbol, (self.libraries[id], []))
                    if library.id != id:
                        raise ListError(f"{symbol} is in both {library.id} and {id}")
                    if any(set(form.cuda) & set(entry.cuda) for form in forms):
                        raise ListError(f"{id}: two rows give {symbol} for one CUDA major")
                    forms.append(entry)
        return found

    @cached_property
    def lookup_names(self) -> set[str]:
        """The names that ``cuGetProcAddress`` is asked for."""
        return {
            entry.lookup.partition("@")[0]
            for entries in self.entries.values()
            for entry in entries
            if entry.lookup
        }

    def family_of(self, symbol: str) -> Library | None:
        """The library whose entry points have names like this one."""
        return next((lib for lib in self.libraries.values() if lib.owns(symbol)), None)

    @classmethod
    def load(cls, folder: Path = HERE) -> Api:
        libraries = load_libraries(folder)
        entries = {id: load_entries(folder, id) for id in libraries}
        types = {row["type"]: row["abi"] for row in _rows(folder / "types.csv", ["type", "abi"])}
        return cls(libraries, entries, types)


def load_libraries(folder: Path = HERE) -> dict[str, Library]:
    tables = tomllib.loads((folder / "libraries.toml").read_text())
    return {id: Library.from_table(id, table) for id, table in tables.items()}


def entries_path(folder: Path, library: str) -> Path:
    return folder / "entries" / f"{library}.csv"


def load_entries(folder: Path, library: str) -> list[Entry]:
    path = entries_path(folder, library)
    entries = []
    for number, row in enumerate(_rows(path, COLUMNS), start=2):
        try:
            entries.append(Entry.from_row(row))
        except ValueError as error:
            raise ListError(f"{path.name}:{number}: {row['name']}: {error}") from error
    return entries


def save_entries(folder: Path, library: str, entries: Iterable[Entry]) -> None:
    ordered = sorted(entries, key=lambda entry: (entry.name, entry.cuda))
    _write(entries_path(folder, library), COLUMNS, (entry.row() for entry in ordered))


def save_types(folder: Path, types: dict[str, str]) -> None:
    rows = ({"type": name, "abi": abi} for name, abi in sorted(types.items()))
    _write(folder / "types.csv", ["type", "abi"], rows)


def _rows(path: Path, columns: list[str]) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        reader = csv.DictReader(file, strict=True, restkey="", restval=None)
        if reader.fieldnames != columns:
            raise ListError(f"{path.name}: columns are {reader.fieldnames}, not {columns}")
        rows = list(reader)
    for number, row in enumerate(rows, start=2):
        if set(row) != set(columns) or None in row.values():
            raise ListError(f"{path.name}:{number}: a row has {len(columns)} columns")
    return rows


def _write(path: Path, columns: list[str], rows: Iterable[dict[str, str]]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)

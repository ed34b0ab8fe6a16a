"""What an installed environment asks of CUDA, against the list: ``warpserve cuda-coverage PATH``.

Software reaches an entry point in two ways, and both are read from its files:

- it *imports* it: an undefined dynamic symbol of an ELF file;
- it *looks it up* by name, with ``dlsym``, ``cuGetProcAddress`` or ``ctypes``: a string in the
  read-only data of a shared library, or in source a quoted name or a method's call
  (``lib.cudaMalloc(``), provided that the file can look names up. What the CUDA libraries look up
  in each other is left out: the virtual GPU takes their place.

A name of a CUDA library's family that the list lacks is unknown, unless the environment itself
defines it. One unknown name makes the command fail.
"""

from __future__ import annotations

import enum
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from .elf import Elf, ElfError, is_elf, read_strings, read_symbols
from .model import Api, Library, Treatment

ABSENT = "absent"
UNKNOWN = "unknown"
STATES = [*(treatment.value for treatment in Treatment), ABSENT, UNKNOWN]

_LOOKUP_FUNCTIONS = frozenset(
    {
        "dlsym",
        "dlvsym",
        "cuGetProcAddress",
        "cuGetProcAddress_v2",
        "cudaGetDriverEntryPoint",
        "cudaGetDriverEntryPointByVersion",
    }
)
_SOURCE_LOOKUP = re.compile(r"ctypes|cffi|CDLL|dlopen|dlsym|GetProcAddress|GetDriverEntryPoint")
_SOURCE_SUFFIXES = frozenset(
    {".py", ".pyi", ".pyx", ".c", ".cc", ".cpp", ".h", ".hpp", ".cu", ".cuh"}
)


class Road(enum.Enum):
    """How software reaches an entry point."""

    IMPORT = "imports"
    LOOKUP = "looks up"


@dataclass
class Use:
    """One name, and the files that ask for it."""

    symbol: str
    library: Library
    state: str
    """A treatment; ``absent`` where a real GPU lacks it too; ``unknown`` to the list."""
    files: dict[Road, set[str]] = field(default_factory=lambda: defaultdict(set))

    def as_json(self) -> dict[str, object]:
        return {
            "symbol": self.symbol,
            "library": self.library.id,
            "state": self.state,
            **{road.value: sorted(files) for road, files in self.files.items()},
        }


@dataclass
class Coverage:
    """Everything that an environment asks of CUDA."""

    uses: dict[str, Use]
    files: int
    """How many files were read."""
    unreadable: list[str]

    @property
    def unknown(self) -> list[Use]:
        return [use for use in self.uses.values() if use.state == UNKNOWN]


class Scanner:
    """Collects the names that the files of an environment ask for."""

    def __init__(self, api: Api, root: Path) -> None:
        self._api = api
        self._root = root
        family = "|".join(f"(?:{lib.family.pattern})" for lib in api.libraries.values())
        name = f"((?a:{family}))"
        self._in_source = re.compile(rf"""(?<=["']){name}(?=["'])|(?<=\.){name}(?=\()""")
        self._c_string = re.compile(rf"\0((?:{family}))(?=\0)".encode())
        self._defined: set[str] = set()
        self._asked: dict[str, dict[Road, set[str]]] = defaultdict(lambda: defaultdict(set))
        self._files = 0
        self._unreadable: list[str] = []

    def scan(self) -> Coverage:
        for path in _files(self._root):
            if path.suffix in _SOURCE_SUFFIXES:
                self._scan_source(path)
            elif is_elf(path):
                self._scan_elf(path)
        uses = (self._use(symbol, roads) for symbol, roads in sorted(self._asked.items()))
        return Coverage({use.symbol: use for use in uses if use}, self._files, self._unreadable)

    def _scan_source(self, path: Path) -> None:
        self._files += 1
        text = path.read_text(errors="replace")
        if _SOURCE_LOOKUP.search(text):
            for match in self._in_source.finditer(text):
                self._ask(match[0], Road.LOOKUP, path)

    def _scan_elf(self, path: Path) -> None:
        self._files += 1
        try:
            elf = read_symbols(path)
            names = read_strings(path, self._c_string) if self._looks_up(path, elf) else set()
        except ElfError as error:
            self._unreadable.append(str(error))
            return
        self._defined |= elf.exports
        for symbol in elf.imports:
            self._ask(symbol, Road.IMPORT, path)
        for symbol in names:
            self._ask(symbol, Road.LOOKUP, path)

    def _looks_up(self, path: Path, elf: Elf) -> bool:
        if elf.is_program or not elf.imports & _LOOKUP_FUNCTIONS:
            return False
        libraries = self._api.libraries.values()
        return not any(library.binaries.fullmatch(path.name) for library in libraries)

    def _ask(self, symbol: str, road: Road, path: Path) -> None:
        if symbol in self._api.by_symbol or self._api.family_of(symbol):
            self._asked[symbol][road].add(str(path.relative_to(self._root)))

    def _use(self, symbol: str, roads: dict[Road, set[str]]) -> Use | None:
        if symbol in self._api.by_symbol:
            library, forms = self._api.by_symbol[symbol]
            return Use(symbol, library, forms[-1].treatment.value, roads)
        family = self._api.family_of(symbol)
        if family is None or symbol in self._defined:
            return None
        return Use(symbol, family, ABSENT if family.lacks(symbol) else UNKNOWN, roads)


def _files(root: Path) -> Iterator[Path]:
    """The regular files below a folder, in order, each once."""
    for path in sorted(root.rglob("*")):
        if path.is_file() and not path.is_symlink():
            yield path


def scan(root: Path, api: Api | None = None) -> Coverage:
    """Read every file below ``root``."""
    return Scanner(api or Api.load(), root).scan()


def _print(coverage: Coverage, console: Console) -> None:
    table = Table("library", *STATES, box=None)
    counted = Counter((use.library.title, use.state) for use in coverage.uses.values())
    for title in dict.fromkeys(use.library.title for use in coverage.uses.values()):
        table.add_row(title, *(str(counted[title, state] or "-") for state in STATES))
    console.print(table)
    console.print(f"{len(coverage.uses)} names in {coverage.files} files")
    for use in coverage.unknown:
        for road, files in use.files.items():
            text = f"unknown: {use.symbol}, which {_some(files)} {road.value}"
            console.print(text, soft_wrap=True)
    for problem in coverage.unreadable:
        console.print(f"not read: {problem}", soft_wrap=True)


def _some(files: Iterable[str]) -> str:
    first, *others = sorted(files)
    return f"{first} and {len(others)} more" if others else first


def cuda_coverage(
    path: Annotated[
        Path,
        typer.Argument(exists=True, file_okay=False, help="Folder of packages (site-packages)."),
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Every name with its files.")] = False,
    names: Annotated[
        bool, typer.Option("--names", help="Also list the names that are not implemented.")
    ] = False,
) -> None:
    """What an environment's files import from CUDA or look up there, and how we answer.

    Fails if one name is unknown to the list of entry points, or one file can't be read.
    """
    coverage = scan(path)
    if as_json:
        uses = [use.as_json() for use in coverage.uses.values()]
        typer.echo(json.dumps({"uses": uses, "unreadable": coverage.unreadable}, indent=1))
    else:
        console = Console()
        if names:
            for use in coverage.uses.values():
                if use.state != Treatment.IMPLEMENTED.value:
                    console.print(f"{use.state:12} {use.symbol}", soft_wrap=True)
        _print(coverage, console)
    if coverage.unknown or coverage.unreadable:
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(cuda_coverage)

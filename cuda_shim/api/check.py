"""Do list, generated code, hand-written code and built library agree? All faults, then the verdict.

``python -m warpserve.cuda_shim.api.check --generated 13=DIR --library 13=libX.so --docs FILE``.
Each part is compared as far as it is given; the hand-written files are always looked at.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from .elf import read_symbols
from .generate import Writer, coverage_tables, in_major
from .model import HERE, Api, Treatment

_SHIM = HERE.parent


@dataclass(frozen=True, order=True)
class Fault:
    """One disagreement: the symbol or file that it is about, and what is wrong with it."""

    subject: str
    problem: str

    def __str__(self) -> str:
        return f"{self.subject}: {self.problem}"


def check_handwritten(api: Api, shim: Path = _SHIM) -> Iterator[Fault]:
    """Is every implemented entry point defined in the file that the rule names?"""
    texts: dict[Path, str] = {}
    for id, entries in api.entries.items():
        for entry in entries:
            if entry.treatment is not Treatment.IMPLEMENTED:
                continue
            path = shim / api.libraries[id].file_of(entry)
            text = texts.setdefault(path, path.read_text() if path.exists() else "")
            for symbol in entry.symbols:
                if not re.search(rf"\b{symbol}\b", text):
                    yield Fault(symbol, f"implemented, says the list; {path} does not define it")


def check_generated(api: Api, major: int, folder: Path) -> Iterator[Fault]:
    """Are the generated files those that the list gives now?"""
    for name, text in Writer(api, major).files().items():
        path = folder / name
        if not path.exists():
            yield Fault(str(path), "is missing; run the generator")
        elif path.read_text() != text:
            yield Fault(str(path), "differs from what the list gives; run the generator")


def check_docs(api: Api, path: Path) -> Iterator[Fault]:
    """Are the coverage tables those that the list gives now?"""
    if not path.exists() or path.read_text() != coverage_tables(api):
        yield Fault(str(path), "differs from what the list gives; run the generator")


def check_library(api: Api, major: int, path: Path) -> Iterator[Fault]:
    """Does a built library export what the list has for a CUDA major, and nothing more?"""
    listed = {
        symbol
        for entries in api.entries.values()
        for entry in in_major(entries, major)
        for symbol in entry.symbols
    }
    exports = read_symbols(path).exports
    for symbol in listed - exports:
        yield Fault(symbol, f"in the list, but {path.name} does not export it")
    for symbol in exports - listed:
        if api.family_of(symbol):
            yield Fault(symbol, f"{path.name} exports it, but the list lacks it for CUDA {major}")


def main(
    generated: Annotated[list[str], typer.Option(help="MAJOR=DIR of generated sources.")] = [],  # noqa: B006
    library: Annotated[list[str], typer.Option(help="MAJOR=FILE of a built library.")] = [],  # noqa: B006
    docs: Annotated[Path | None, typer.Option(help="The coverage tables.")] = None,
) -> None:
    """Compare the list with generated code, hand-written code and built libraries."""
    api = Api.load()
    faults = [*check_handwritten(api)]
    for major, path in map(_major_and_path, generated):
        faults += check_generated(api, major, path)
    for major, path in map(_major_and_path, library):
        faults += check_library(api, major, path)
    if docs:
        faults += check_docs(api, docs)
    for fault in sorted(faults):
        typer.echo(fault)
    if faults:
        typer.echo(f"{len(faults)} faults", err=True)
        raise typer.Exit(1)


def _major_and_path(text: str) -> tuple[int, Path]:
    major, _, path = text.partition("=")
    if not major.isdecimal() or not path:
        raise typer.BadParameter(f"{text!r} is not MAJOR=PATH")
    return int(major), Path(path)


if __name__ == "__main__":
    typer.run(main)

"""What an ELF file exports, imports and holds as text.

pyelftools reads the format; the symbol table itself is decoded in bulk, because libraries of
machine learning have hundreds of thousands of symbols.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import Section

_MAGIC = b"\x7fELF"
_SYMBOL = struct.Struct("<IBBHQQ")
"""``Elf64_Sym``: name, info, other, section index, value, size."""
_LOCAL = 0
_FUNCTION_TYPES = (2, 10)
"""``STT_FUNC`` and ``STT_GNU_IFUNC``."""


class ElfError(ValueError):
    """The file is not a 64-bit little-endian ELF file that can be read."""


@dataclass(frozen=True)
class Elf:
    """The dynamic symbols of one file."""

    exports: frozenset[str]
    """Defined functions that other files can link to."""
    imports: frozenset[str]
    """Undefined names, functions and data, that another file must supply."""
    is_program: bool
    """It is started, not loaded: it names an interpreter."""


def is_elf(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(4) == _MAGIC
    except OSError:
        return False


def read_symbols(path: Path) -> Elf:
    """The dynamic symbols of a file."""
    with _sections(path) as elf:
        is_program = any(s["p_type"] == "PT_INTERP" for s in elf.iter_segments())
        symbols, names = elf.get_section_by_name(".dynsym"), elf.get_section_by_name(".dynstr")
        if symbols is None or names is None:
            return Elf(frozenset(), frozenset(), is_program)
        text = names.data()
        exports, imports = set(), set()
        for name_at, info, _, section, _, _ in _SYMBOL.iter_unpack(symbols.data()):
            if info >> 4 == _LOCAL:
                continue
            name = text[name_at : text.index(b"\0", name_at)].decode()
            if section == 0:
                imports.add(name)
            elif info & 0xF in _FUNCTION_TYPES:
                exports.add(name)
    return Elf(frozenset(exports), frozenset(imports), is_program)


def read_strings(path: Path, wanted: re.Pattern[bytes]) -> set[str]:
    """The whole NUL-terminated strings in a file's read-only data that ``wanted`` finds.

    ``wanted`` must match the string and, by lookaround, the NULs on both sides.
    """
    with _sections(path) as elf:
        found: set[str] = set()
        for section in _text_sections(elf):
            found.update(match.decode() for match in wanted.findall(b"\0" + section.data()))
        return found


def _text_sections(elf: ELFFile) -> Iterator[Section]:
    for section in elf.iter_sections():
        if section.name.startswith(".rodata") and section["sh_type"] == "SHT_PROGBITS":
            yield section


@contextmanager
def _sections(path: Path) -> Iterator[ELFFile]:
    with path.open("rb") as file:
        try:
            elf = ELFFile(file)
            if elf.elfclass != 64 or not elf.little_endian:
                raise ElfError(f"{path}: not a 64-bit little-endian ELF file")
            yield elf
        except ELFError as error:
            raise ElfError(f"{path}: {error}") from error

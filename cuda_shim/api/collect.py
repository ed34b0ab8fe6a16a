"""Bring the list up to date with NVIDIA's wheels: ``python -m warpserve.cuda_shim.api.collect``.

For each CUDA major it reads environments that hold the wheels (``pip install --no-deps --target
DIR nvidia-cuda-runtime-cu12 …``), parses the headers with libclang and reads what the libraries
export. Names, types and versions are facts and come from there; treatments and notes are
decisions and stay as they are in the list. A new entry point starts as unsupported. Of several
environments for one major, the entry points add up and the last one's forms count.

Only functions that are both exported and of the library's family are listed. The two libraries
that the display driver brings (driver, NVML) are in no wheel: for them the header counts.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Annotated

import typer
from clang.cindex import Cursor, CursorKind, Index, LinkageKind, TranslationUnit, Type, TypeKind

from .abi import BUILTINS, pointee
from .elf import read_symbols
from .model import (
    HERE,
    Entry,
    Library,
    ListError,
    Parameter,
    Treatment,
    entries_path,
    load_entries,
    load_libraries,
    save_entries,
    save_types,
)

_STREAM_SUFFIX = re.compile(r"(\w+?)(_ptsz|_ptds)")
"""The exports that use the calling thread's default stream instead of the process's."""
_VERSION_SUFFIX = re.compile(r"(\w+?)_v(\d+)")
_DRIVER_POINTER = re.compile(r"PFN_(\w+?)_v(\d+)")
_HEADERS_WITH_OLD_FORMS = ("cuda.h", "cuda_runtime_api.h", "nvml.h")
_OLD_FORMS = ["-D__CUDA_API_VERSION_INTERNAL", "-DNVML_NO_UNVERSIONED_FUNC_DEFS"]
"""Also declares the old forms, which the library still exports."""
_DECORATION = re.compile(r"\b(?:struct|enum|union) |\s*\b(?:restrict|__restrict|volatile)\b")
_SIGNED = {1: "i8", 2: "i16", 4: "i32", 8: "i64"}
_REGISTER_BYTES = 16
"""A larger structure is passed in memory."""


@dataclass(frozen=True)
class Form:
    """The C form of a function: what one header says."""

    returns: str
    parameters: tuple[Parameter, ...]

    def is_like(self, other: Form) -> bool:
        """Whether both are the same but for names and ``const``."""
        return self._types() == other._types()

    def _types(self) -> list[str]:
        spelled = [self.returns, *(p.type for p in self.parameters)]
        return [re.sub(r"\bconst\b|\s", "", type) for type in spelled]


UNDECLARED = Form("", ())


@dataclass
class Found:
    """What one environment says about one library."""

    forms: dict[str, Form] = field(default_factory=dict)
    types: dict[str, str] = field(default_factory=dict)
    enumerators: dict[str, int] = field(default_factory=dict)
    lookups: dict[str, str] = field(default_factory=dict)
    sources: list[dict[str, str]] = field(default_factory=list)


class Site:
    """An environment with NVIDIA's wheels."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._owner: dict[str, Distribution] = {}
        for dist in distributions(path=[str(root)]):
            if dist.metadata["Name"].startswith("nvidia"):
                self._owner.update((str(file), dist) for file in dist.files or ())

    def find(self, name: str) -> Path | None:
        """The file that ends in this name, such as ``crt/host_runtime.h``."""
        for file in self._owner:
            if file.endswith("/" + name) and (self.root / file).exists():
                return self.root / file
        return None

    def include_dirs(self) -> list[Path]:
        dirs = self.root.glob("nvidia/*/include")
        return sorted(dir for own in dirs for dir in (own, own / "cccl") if dir.is_dir())

    def source(self, path: Path) -> dict[str, str]:
        """Where a file comes from: package, version and path in it."""
        file = str(path.relative_to(self.root))
        dist = self._owner[file]
        return {"package": dist.metadata["Name"], "version": dist.version, "file": file}


class Headers:
    """Parses headers of one environment."""

    def __init__(self, site: Site) -> None:
        self._index = Index.create()
        gcc = subprocess.run(
            ["gcc", "-print-file-name=include"], check=True, capture_output=True, text=True
        )
        dirs = [*site.include_dirs(), Path(gcc.stdout.strip())]
        self._flags = [f"-I{dir}" for dir in dirs]

    def parse(
        self, header: Path, flags: Iterable[str] = (), declared: Iterable[str] = ()
    ) -> TranslationUnit:
        """Parse a header, as C if it is C."""
        includes = (f"#include <{name}>\n" for name in ("stddef.h", "stdint.h", header))
        text = "".join((*includes, *(f"extern {line};\n" for line in declared)))
        for language in ("c", "c++"):
            unit = self._index.parse(
                f"list.{language}",
                args=["-x", language, *self._flags, *flags],
                unsaved_files=[(f"list.{language}", text)],
            )
            errors = [d for d in unit.diagnostics if d.severity >= d.Error]
            if not errors:
                return unit
        raise ListError(f"{header} does not parse: {errors[0]}")


def read_unit(unit: TranslationUnit, library: Library, found: Found) -> None:
    """Add a library's functions and enumerators of a parsed header; what is known already stays."""
    for cursor in _declarations(unit):
        if cursor.kind is CursorKind.ENUM_DECL:
            for constant in cursor.get_children():
                found.enumerators.setdefault(constant.spelling, constant.enum_value)
        elif cursor.linkage is LinkageKind.EXTERNAL and cursor.mangled_name == cursor.spelling:
            if cursor.spelling in found.forms or not library.owns(cursor.spelling):
                continue
            parameters = tuple(
                Parameter(_spell(arg.type, found.types), arg.spelling or f"arg{at}")
                for at, arg in enumerate(cursor.get_arguments())
            )
            returns = _spell(cursor.result_type, found.types)
            found.forms[cursor.spelling] = Form(returns, parameters)


def _declarations(unit: TranslationUnit) -> Iterator[Cursor]:
    """Functions and enumerations, also those inside ``extern "C"``."""
    pending = [unit.cursor]
    while pending:
        for child in pending.pop().get_children():
            if child.kind in (CursorKind.LINKAGE_SPEC, CursorKind.UNEXPOSED_DECL):
                pending.append(child)
            elif child.kind in (CursorKind.FUNCTION_DECL, CursorKind.ENUM_DECL):
                yield child
            elif child.kind is CursorKind.TYPEDEF_DECL:
                yield from (c for c in child.get_children() if c.kind is CursorKind.ENUM_DECL)


def _spell(type: Type, types: dict[str, str]) -> str:
    """A type as the list spells it; what it names is added to ``types``.

    The structures that it only points to are not: they stay opaque.
    """
    if type.kind in (TypeKind.CONSTANTARRAY, TypeKind.INCOMPLETEARRAY):
        return f"{_spell(type.element_type, types)} *"
    text = _text(type)
    by_value = not text.endswith("*")
    if "(*)" not in text:
        name, target = pointee(text), type
        while target.kind is TypeKind.POINTER and name != _text(target):
            target = target.get_pointee()
        canonical = target.get_canonical()
        if name not in (*BUILTINS, "void") and (by_value or _is_scalar(canonical)):
            types[name] = _abi(canonical)
    return text


def _text(type: Type) -> str:
    """The spelling, without ``struct`` and the like and without the value's own ``const``."""
    text = _DECORATION.sub("", type.spelling).strip()
    return re.sub(r"(?<=\*)const$|^const (?=[^*]*$)", "", text)


def _is_scalar(type: Type) -> bool:
    name = type.spelling.removeprefix("const ")
    return type.kind in (TypeKind.ENUM, TypeKind.POINTER) or name in BUILTINS


def _abi(type: Type) -> str:
    """The code of :mod:`.abi` for a canonical type."""
    size = type.get_size()
    if type.kind in (TypeKind.POINTER, TypeKind.FUNCTIONPROTO):
        return "ptr"
    if type.kind is TypeKind.ENUM:
        return _abi(type.get_declaration().enum_type.get_canonical())
    if type.kind in (TypeKind.FLOAT, TypeKind.DOUBLE):
        return {4: "f32", 8: "f64"}[size]
    if type.kind is TypeKind.RECORD:
        if size > _REGISTER_BYTES:
            return f"memory:{size}:{type.get_align()}"
        return "{" + " ".join(_scalars(type)) + "}"
    name = type.spelling.removeprefix("const ")
    if name in BUILTINS:
        return BUILTINS[name]
    raise ListError(f"no rule for how {type.spelling} is passed")


def _scalars(type: Type) -> Iterator[str]:
    """The scalars of a small structure, in order; a union counts as its widest integer."""
    if type.kind is TypeKind.CONSTANTARRAY:
        for _ in range(type.element_count):
            yield from _scalars(type.element_type.get_canonical())
    elif type.kind is not TypeKind.RECORD:
        yield _abi(type)
    elif type.get_declaration().kind is CursorKind.UNION_DECL:
        members = [list(_scalars(f.type.get_canonical())) for f in type.get_fields()]
        if any(code.startswith("f") for member in members for code in member):
            raise ListError(f"{type.spelling}: a union with floating point is passed by value")
        yield from [_SIGNED[type.get_align()]] * (type.get_size() // type.get_align())
    else:
        for member in type.get_fields():
            yield from _scalars(member.type.get_canonical())


def read_library(site: Site, headers: Headers, library: Library, major: int) -> Found | None:
    """What an environment says about a library, or None where it lacks the library."""
    found = Found()
    for name in library.headers:
        if (path := site.find(name)) is None:
            continue
        flags = library.flags.get(name, library.flags.get("*", []))
        declared = library.declared if name == library.headers[0] else ()
        read_unit(headers.parse(path, flags, declared), library, found)
        if name in _HEADERS_WITH_OLD_FORMS:
            read_unit(headers.parse(path, _OLD_FORMS), library, found)
        found.sources.append(site.source(path))
    if not found.sources:
        return None
    _verify_status(library, found)
    binary = site.find(library.soname[major])
    if binary is not None:
        exports = read_symbols(binary).exports
        found.sources.append(site.source(binary))
    elif library.soname[major] in ("libcuda.so.1", "libnvidia-ml.so.1"):
        exports = frozenset(found.forms)
    else:
        raise ListError(f"{site.root} has {library.id}'s headers, but no {library.soname[major]}")
    names = {name for name in exports if library.owns(name)}
    found.forms = {name: found.forms.get(name, UNDECLARED) for name in names}
    if library.id == "cuda" and (typedefs := site.find("cudaTypedefs.h")):
        unit = headers.parse(typedefs, _OLD_FORMS)
        found.lookups = driver_lookups(_typedef_names(unit), found.forms)
        found.sources.append(site.source(typedefs))
    return found


def _verify_status(library: Library, found: Found) -> None:
    status = library.status
    if status and found.enumerators.get(status.name, status.value) != status.value:
        value = found.enumerators[status.name]
        raise ListError(f"libraries.toml: [{library.id}] {status.name} is {value} in the header")


def _typedef_names(unit: TranslationUnit) -> list[str]:
    kinds = unit.cursor.get_children()
    return [c.spelling for c in kinds if c.kind is CursorKind.TYPEDEF_DECL]


def driver_lookups(typedefs: Iterable[str], forms: Iterable[str]) -> dict[str, str]:
    """Which ``name@version`` each driver function answers, by the driver's own table of types.

    ``PFN_cuMemAlloc_v2000`` and ``PFN_cuMemAlloc_v3020`` are, in this order, ``cuMemAlloc`` and
    ``cuMemAlloc_v2``.
    """
    versions: dict[str, set[int]] = {}
    for typedef in typedefs:
        if match := _DRIVER_POINTER.fullmatch(typedef):
            versions.setdefault(match[1], set()).add(int(match[2]))
    symbols: dict[str, list[tuple[int, str]]] = {}
    for symbol in forms:
        if _STREAM_SUFFIX.fullmatch(symbol):
            continue
        match = _VERSION_SUFFIX.fullmatch(symbol)
        base, form = (match[1], int(match[2])) if match else (symbol, 1)
        symbols.setdefault(base, []).append((form, symbol))
    lookups = {}
    for base, known in versions.items():
        ordered = [symbol for _, symbol in sorted(symbols.get(base, []))]
        if len(ordered) != len(known):
            raise ListError(f"{base}: versions {sorted(known)}, but functions {ordered}")
        for version, symbol in zip(sorted(known), ordered, strict=True):
            lookups[symbol] = f"{base}@{version}"
    return lookups


def fold_variants(forms: dict[str, Form]) -> dict[str, tuple[Form, tuple[str, ...]]]:
    """Join ``_ptsz`` and ``_ptds`` exports to the function that they are a variant of."""
    folded: dict[str, tuple[Form, list[str]]] = {}
    for name in sorted(forms, key=lambda name: (len(name), name)):
        match = _STREAM_SUFFIX.fullmatch(name)
        if match and match[1] in folded:
            folded[match[1]][1].append(match[2])
        else:
            folded[name] = (forms[name], [])
    return {name: (form, tuple(sorted(suffixes))) for name, (form, suffixes) in folded.items()}


def merge(library: Library, found: dict[int, Found], old: list[Entry]) -> list[Entry]:
    """The rows of a library: facts from ``found``, by CUDA major, and decisions from ``old``."""
    decided = {(entry.name, major): entry for entry in old for major in entry.cuda}
    entries: list[Entry] = []
    by_major = {major: fold_variants(facts.forms) for major, facts in found.items()}
    for name in sorted({*library.undeclared, *(n for forms in by_major.values() for n in forms)}):
        forms: list[Entry] = []
        for major in sorted(found, reverse=True):
            if name not in by_major[major] and name not in library.undeclared:
                continue
            form, variants = by_major[major].get(name, (UNDECLARED, ()))
            if forms and Form(forms[-1].returns, forms[-1].parameters).is_like(form):
                both = tuple(sorted({*forms[-1].variants, *variants}))
                forms[-1] = replace(forms[-1], cuda=(major, *forms[-1].cuda), variants=both)
                continue
            before = decided.get((name, major))
            forms.append(
                Entry(
                    name=name,
                    cuda=(major,),
                    treatment=before.treatment if before else Treatment.UNSUPPORTED,
                    returns=form.returns,
                    parameters=form.parameters,
                    variants=variants,
                    lookup=found[major].lookups.get(name, ""),
                    zeroes=before.zeroes if before else (),
                    note=before.note if before else "",
                )
            )
        entries += forms
    return entries


def add_up(parts: Iterable[Found]) -> Found:
    """Several environments of one CUDA major as one: the last one's facts count."""
    total = Found()
    for part in parts:
        total.forms |= {
            name: form
            for name, form in part.forms.items()
            if form != UNDECLARED or name not in total.forms
        }
        total.types |= part.types
        total.lookups |= part.lookups
        total.sources += part.sources
    return total


def _write_provenance(path: Path, sources: dict[str, list[dict[str, str]]]) -> None:
    lines = ["# Where the facts in entries/ and types.csv were read. Written by collect.py."]
    for id, rows in sources.items():
        files: dict[tuple[str, str], set[str]] = {}
        for row in rows:
            files.setdefault((row["package"], row["version"]), set()).add(row["file"])
        for (package, version), names in sorted(files.items()):
            lines += ["", f"[[{id}]]", f'package = "{package}"', f'version = "{version}"']
            lines += ["files = [", *(f"  {json.dumps(name)}," for name in sorted(names)), "]"]
    path.write_text("\n".join(lines) + "\n")


def collect(sites: dict[int, list[Path]], folder: Path = HERE) -> None:
    """Rewrite ``entries/``, ``types.csv`` and ``provenance.toml`` in ``folder``."""
    libraries = load_libraries(folder)
    opened = {
        major: [(site, Headers(site)) for site in map(Site, roots)]
        for major, roots in sites.items()
    }
    types: dict[str, str] = {}
    provenance: dict[str, list[dict[str, str]]] = {}
    for id, library in libraries.items():
        found: dict[int, Found] = {}
        for major, environments in opened.items():
            parts = [read_library(site, headers, library, major) for site, headers in environments]
            found[major] = add_up(part for part in parts if part)
            provenance.setdefault(id, []).extend(found[major].sources)
        old = load_entries(folder, id) if entries_path(folder, id).exists() else []
        entries = merge(library, found, old)
        for facts in found.values():
            _add_types(types, facts.types, entries)
        save_entries(folder, id, entries)
        typer.echo(f"{id}: {len(entries)} entry points")
    save_types(folder, types)
    _write_provenance(folder / "provenance.toml", provenance)


def _add_types(types: dict[str, str], more: dict[str, str], entries: list[Entry]) -> None:
    used = {
        pointee(type)
        for entry in entries
        for type in (entry.returns, *(p.type for p in entry.parameters))
    }
    for name in used & set(more):
        if types.setdefault(name, more[name]) != more[name]:
            raise ListError(f"{name} is passed as {types[name]} and as {more[name]}")


def main(
    site: Annotated[
        list[str],
        typer.Option(help="MAJOR=DIR: an environment with NVIDIA's wheels for that CUDA major."),
    ],
) -> None:
    """Rewrite the list of entry points from NVIDIA's wheels."""
    sites: dict[int, list[Path]] = {}
    for text in site:
        major, _, root = text.partition("=")
        sites.setdefault(int(major), []).append(Path(root))
    collect(sites)


if __name__ == "__main__":
    typer.run(main)

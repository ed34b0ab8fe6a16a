"""C++ and documentation from the list: ``python -m warpserve.cuda_shim.api.generate``.

It runs inside the build, so it needs the standard library only. ``sources MAJOR DIR`` writes into
the folder, for one CUDA major,

- ``abi.hpp``: structures that travel by value,
- ``<library>.hpp``: every declared entry point, for the files that implement some,
- ``<library>.cpp``: the definition of each entry point that nobody implements,
- ``<library>.map``: the linker's version script, with the symbol version that programs ask for,
- ``driver_table.cpp``: the table behind ``cuGetProcAddress`` and ``cudaGetDriverEntryPoint``.

``docs FILE`` writes the coverage tables. Files that would not change are left alone, so that a
build repeats only what it must.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from pathlib import Path

from .abi import STRUCT_NAMESPACE, cpp_struct, cpp_type
from .model import CUDA_MAJORS, Api, Entry, Library, ListError, Treatment

_HEADER = "// Generated from the list in cuda_shim/api; change that instead.\n"
_MACROS = """\
#define EXPORT __attribute__((visibility("default")))
#define CALL(name, advice) \\
  UnsupportedCall { kLibrary, name, advice, __builtin_return_address(0) }
#define FAIL(result, name, advice) \\
  result { static_cast<std::uint32_t>(unsupported(CALL(name, advice), kNotSupported)) }
"""
_PER_THREAD_SUFFIXES = ("_ptsz", "_ptds")


def in_major(entries: list[Entry], major: int) -> list[Entry]:
    """The entries that a CUDA major has."""
    return [entry for entry in entries if major in entry.cuda]


class Writer:
    """Writes the sources of one CUDA major."""

    def __init__(self, api: Api, major: int) -> None:
        self._api = api
        self._major = major

    def files(self) -> dict[str, str]:
        """Name and text of every file."""
        files = {"abi.hpp": self._structures(), "driver_table.cpp": self._driver_table()}
        for library in self._api.libraries.values():
            entries = in_major(self._api.entries[library.id], self._major)
            files[f"{library.id}.hpp"] = self._declarations(entries)
            files[f"{library.id}.cpp"] = self._definitions(library, entries)
            files[f"{library.id}.map"] = self._version_script(library, entries)
        return files

    def _structures(self) -> str:
        structs = (cpp_struct(name, abi) for name, abi in self._api.types.items())
        body = "\n\n".join(struct for struct in structs if struct)
        return (
            f"{_HEADER}// Structures that travel by value, for their size and registers only.\n"
            f"#pragma once\n\n#include <cstdint>\n\nnamespace {STRUCT_NAMESPACE} {{\n\n{body}\n\n"
            f"}}  // namespace {STRUCT_NAMESPACE}\n"
        )

    def _declarations(self, entries: list[Entry]) -> str:
        lines = [
            f"{self._prototype(entry, symbol, named=True)};"
            for entry in entries
            if entry.is_declared
            for symbol in entry.symbols
        ]
        return (
            f'{_HEADER}#pragma once\n\n#include <cstdint>\n\n#include "abi.hpp"\n\n'
            'extern "C" {\n\n' + "\n".join(lines) + '\n\n}  // extern "C"\n'
        )

    def _definitions(self, library: Library, entries: list[Entry]) -> str:
        lines = [
            self._definition(library, entry, symbol)
            for entry in entries
            if entry.treatment is not Treatment.IMPLEMENTED
            for symbol in entry.symbols
        ]
        return (
            f'{_HEADER}#include "{library.id}.hpp"\n\n#include "cuda_shim/api/unsupported.hpp"\n\n'
            "using namespace warpserve::cuda_shim;  // NOLINT: this file holds nothing else\n\n"
            f"namespace {{\nconstexpr const char* kLibrary = {_text(library.title)};\n"
            f"constexpr const char* kAdvice =\n    {_text(library.advice)};\n"
            f"{_status_constant(library)}}}  // namespace\n\n"
            f"{_MACROS}\n"
            'extern "C" {\n\n' + "\n".join(lines) + '\n\n}  // extern "C"\n'
        )

    def _definition(self, library: Library, entry: Entry, symbol: str) -> str:
        zeroed = entry.zeroes
        head = f"EXPORT {self._prototype(entry, symbol, named=False, keep=zeroed)}"
        if entry.treatment is Treatment.HARMLESS:
            self._check_zeroed(entry)
            assigns = "".join(f" if ({name} != nullptr) *{name} = {{}};" for name in zeroed)
            result = "" if entry.returns == "void" else " return {};"
            return f"{head} {{{assigns}{result} }}"
        advice = _text(entry.note) if entry.note else "kAdvice"
        return f"{head} {{ {self._fail(library, entry, f'{_text(symbol)}, {advice}')} }}"

    def _check_zeroed(self, entry: Entry) -> None:
        for parameter in entry.parameters:
            opaque = cpp_type(parameter.type, self._api.types) in ("void*", "const void*")
            if parameter.name in entry.zeroes and opaque:
                raise ListError(f"{entry.name}: {parameter.name} is opaque and can't be zeroed")

    def _fail(self, library: Library, entry: Entry, call: str) -> str:
        status = library.status
        if entry.returns == "void":
            return f"unsupported_void(CALL({call}));"
        if status is None or entry.returns != status.type:
            return f"unsupported_result(CALL({call}));"
        result = cpp_type(entry.returns, self._api.types)
        return f"return FAIL({result}, {call});"

    def _prototype(
        self, entry: Entry, symbol: str, *, named: bool, keep: tuple[str, ...] = ()
    ) -> str:
        if not entry.is_declared:
            return f"void {symbol}()"
        types = self._api.types
        parameters = ", ".join(
            cpp_type(p.type, types) + (f" {_identifier(p.name)}" if named or p.name in keep else "")
            for p in entry.parameters
        )
        return f"{cpp_type(entry.returns, types)} {symbol}({parameters})"

    def _version_script(self, library: Library, entries: list[Entry]) -> str:
        symbols = sorted(symbol for entry in entries for symbol in entry.symbols)
        version = library.version.get(self._major, "")
        listed = "".join(f"    {symbol};\n" for symbol in symbols)
        return f"{version} {{\n  global:\n{listed}  local:\n    *;\n}};\n".lstrip()

    def _driver_table(self) -> str:
        lines = []
        for name, version, entry in self._lookups():
            per_thread = [s for s in entry.variants if s in _PER_THREAD_SUFFIXES]
            other = _address(entry.name + per_thread[0]) if per_thread else "nullptr"
            lines.append(f"    {{{_text(name)}, {version}, {_address(entry.name)}, {other}}},")
        return (
            f'{_HEADER}#include "cuda_shim/api/driver_table.hpp"\n\n#include <array>\n\n'
            '#include "cuda.hpp"\n\nnamespace warpserve::cuda_shim {\nnamespace {\n\n'
            f"const std::array<DriverEntry, {len(lines)}> kEntries{{{{\n"
            + "\n".join(lines)
            + "\n}};\n\n}  // namespace\n\n"
            "std::span<const DriverEntry> driver_entries() { return kEntries; }\n\n"
            "}  // namespace warpserve::cuda_shim\n"
        )

    def _lookups(self) -> list[tuple[str, int, Entry]]:
        found = []
        for entry in in_major(self._api.entries["cuda"], self._major):
            if entry.lookup:
                name, _, version = entry.lookup.partition("@")
                found.append((name, int(version), entry))
        return sorted(found, key=lambda row: row[:2])


def _status_constant(library: Library) -> str:
    status = library.status
    return f"constexpr int kNotSupported = {status.value};  // {status.name}\n" if status else ""


def _address(symbol: str) -> str:
    return f"reinterpret_cast<void*>(&{symbol})"


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _identifier(name: str) -> str:
    """A parameter name that C++ and the C library leave free."""
    return f"{name}_" if name in ("stdin", "stdout", "stderr", "template", "class", "new") else name


def write_sources(api: Api, major: int, out: Path) -> list[Path]:
    """Write the sources of one CUDA major; returns the files, changed or not."""
    if major not in CUDA_MAJORS:
        raise ListError(f"CUDA {major}: the list has {CUDA_MAJORS}")
    out.mkdir(parents=True, exist_ok=True)
    return [write_if_changed(out / n, text) for n, text in Writer(api, major).files().items()]


def write_if_changed(path: Path, text: str) -> Path:
    if not path.exists() or path.read_text() != text:
        path.write_text(text)
    return path


def coverage_tables(api: Api) -> str:
    """``docs/cuda-coverage.md``: counts by library and treatment, then what is not unsupported."""
    treatments = list(Treatment)
    lines = [
        "# CUDA coverage",
        "",
        "Generated from the list in `cuda_shim/api`; change that instead.",
        "",
        "Every entry point of the libraries below has a treatment. *Implemented*: it behaves as on "
        "a GPU. *Harmless*: it succeeds without doing anything, for the reason given. "
        "*Unsupported*: it names itself, its caller and what to do, and fails; with "
        "`WARPSERVE_UNSUPPORTED=warn` it is counted and passes.",
        "",
        "`warpserve cuda-coverage PATH` compares an installed environment with this list.",
        "",
        _table_row("Library", *(f"CUDA {major}" for major in CUDA_MAJORS), *_titles(treatments)),
        _table_row("---", *["---:"] * (len(CUDA_MAJORS) + len(treatments))),
    ]
    for id, library in api.libraries.items():
        entries = api.entries[id]
        majors = [sum(len(e.symbols) for e in in_major(entries, major)) for major in CUDA_MAJORS]
        counted: Counter[Treatment] = Counter()
        for entry in entries:
            counted[entry.treatment] += len(entry.symbols)
        lines.append(_table_row(library.title, *majors, *(counted[t] for t in treatments)))
    lines += ["", "Counted are exported names; one whose form differs between majors counts twice."]
    for treatment in (Treatment.IMPLEMENTED, Treatment.HARMLESS):
        rows = [
            _table_row(f"`{entry.name}`", api.libraries[id].title, entry.note)
            for id, entries in api.entries.items()
            for entry in entries
            if entry.treatment is treatment
        ]
        if rows:
            head = [_table_row("Entry point", "Library", "Note"), _table_row("---", "---", "---")]
            lines += ["", f"## {treatment.value.capitalize()}", "", *head, *rows]
    return "\n".join(lines) + "\n"


def _titles(treatments: list[Treatment]) -> list[str]:
    return [treatment.value.capitalize() for treatment in treatments]


def _table_row(*cells: object) -> str:
    return "| " + " | ".join(map(str, cells)) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description="Write C++ or documentation from the list.")
    commands = parser.add_subparsers(dest="command", required=True)
    sources = commands.add_parser("sources", help="C++ for one CUDA major")
    sources.add_argument("major", type=int, choices=CUDA_MAJORS)
    sources.add_argument("out", type=Path)
    docs = commands.add_parser("docs", help="the coverage tables")
    docs.add_argument("out", type=Path)
    arguments = parser.parse_args()
    api = Api.load()
    if arguments.command == "sources":
        write_sources(api, arguments.major, arguments.out)
    else:
        write_if_changed(arguments.out, coverage_tables(api))


if __name__ == "__main__":
    main()

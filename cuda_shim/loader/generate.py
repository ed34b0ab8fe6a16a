"""What a build of ``libwarpserve_gpu`` for one CUDA major needs from the list of entry points.

``python -m warpserve.cuda_shim.loader.generate MAJOR DIR`` writes the sources of
:mod:`warpserve.cuda_shim.api.generate` and, for the library that stands in for all others at once,

- ``exports.map``: the symbol versions that programs were linked against;
- ``library_names.hpp``: the names under which programs open the libraries.

It runs inside the build, so it needs the standard library only.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from pathlib import Path

from warpserve.cuda_shim.api.generate import in_major, write_if_changed, write_sources
from warpserve.cuda_shim.api.model import CUDA_MAJORS, Api

_HEADER = "Generated from the list in cuda_shim/api; change that instead."


def version_script(api: Api, major: int) -> str:
    """The linker's version script.

    What has no version keeps the base version, which a reference with any version matches:
    `dlopen` is asked for as the C library's. C++ names stay inside, and so do entry points that
    another major has: the files of the driver are compiled once for both.
    """
    hidden = sorted(_symbols_of_others(api, major))
    local = "".join(f"    {name};\n" for name in ("_Z*", *hidden))
    versions: dict[str, list[str]] = defaultdict(list)
    for library in api.libraries.values():
        if version := library.version.get(major):
            entries = in_major(api.entries[library.id], major)
            versions[version] += [symbol for entry in entries for symbol in entry.symbols]
    nodes = []
    for at, (version, symbols) in enumerate(sorted(versions.items())):
        listed = "".join(f"    {symbol};\n" for symbol in sorted(symbols))
        inside = f"  local:\n{local}" if at == 0 else ""
        nodes.append(f"{version} {{\n  global:\n{listed}{inside}}};\n")
    return f"/* {_HEADER} */\n" + "\n".join(nodes)


def _symbols_of_others(api: Api, major: int) -> set[str]:
    """The names that the list has for other majors only."""
    own: set[str] = set()
    others: set[str] = set()
    for entries in api.entries.values():
        for entry in entries:
            (own if major in entry.cuda else others).update(entry.symbols)
    return others - own


def library_names(api: Api, major: int) -> str:
    """The sonames of a CUDA major, for ``cuda_shim/loader/dlopen.cpp``."""
    names = "".join(f'    "{name}",\n' for name in sonames(api, major))
    return (
        f"// {_HEADER}\n#pragma once\n\n#include <array>\n#include <string_view>\n\n"
        "namespace warpserve::gpu {\n\n"
        f"inline constexpr std::array<std::string_view, {len(sonames(api, major))}> "
        f"kLibraryNames = {{\n{names}}};\n\n}}  // namespace warpserve::gpu\n"
    )


def sonames(api: Api, major: int) -> list[str]:
    """The file names that the loader asks for."""
    return sorted({library.soname[major] for library in api.libraries.values()})


def main() -> None:
    parser = argparse.ArgumentParser(description="Write what one build of the library needs.")
    parser.add_argument("major", type=int, choices=CUDA_MAJORS)
    parser.add_argument("out", type=Path)
    arguments = parser.parse_args()
    api = Api.load()
    write_sources(api, arguments.major, arguments.out)
    write_if_changed(arguments.out / "exports.map", version_script(api, arguments.major))
    write_if_changed(arguments.out / "library_names.hpp", library_names(api, arguments.major))


if __name__ == "__main__":
    main()

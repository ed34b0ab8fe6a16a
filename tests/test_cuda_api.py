"""The list of CUDA entry points: true to CUDA's ABI, complete, and what is generated from it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from warpserve.cuda_shim.api import check, coverage
from warpserve.cuda_shim.api.abi import cpp_struct, cpp_type
from warpserve.cuda_shim.api.generate import coverage_tables, write_sources
from warpserve.cuda_shim.api.model import (
    COLUMNS,
    CUDA_MAJORS,
    Api,
    Entry,
    ListError,
    Parameter,
    Treatment,
    split_parameters,
)

ROOT = Path(__file__).parents[1]
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Werror"]
API = Api.load()
# Nothing is written by hand: what the generated sources are alone.
STUBS = replace(
    API,
    entries={
        id: [
            replace(entry, treatment=Treatment.UNSUPPORTED)
            if entry.treatment is Treatment.IMPLEMENTED
            else entry
            for entry in entries
        ]
        for id, entries in API.entries.items()
    },
)


def compile_cpp(source: Path, *flags: str) -> Path:
    """Compile one file to an object beside it."""
    target = source.with_suffix(".o")
    command = ["g++", "-std=c++20", "-O0", "-fPIC", "-fvisibility=hidden", *WARNINGS, *flags]
    subprocess.run([*command, f"-I{ROOT}", "-c", source, "-o", target], check=True)
    return target


@pytest.fixture(scope="module", params=CUDA_MAJORS)
def built(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Built:
    """All generated sources of a CUDA major, compiled and linked to one library."""
    return Built(request.param, tmp_path_factory.mktemp(f"cuda{request.param}"))


class Built:
    def __init__(self, major: int, folder: Path) -> None:
        self.major = major
        self.folder = folder
        self.library = folder / "libvirtual.so"
        sources = [p for p in write_sources(STUBS, major, folder) if p.suffix == ".cpp"]
        runtime = Path(shutil.copy(ROOT / "cuda_shim/api/unsupported.cpp", folder))
        with ThreadPoolExecutor(2) as pool:
            objects = list(pool.map(lambda p: compile_cpp(p, f"-I{folder}"), [*sources, runtime]))
        subprocess.run(["g++", "-shared", "-o", self.library, *objects], check=True)

    def run(self, body: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run Python lines that have the library as ``lib``."""
        code = f"import ctypes\nlib = ctypes.CDLL({str(self.library)!r})\n{body}"
        command = [sys.executable, "-c", code]
        clean = {k: v for k, v in os.environ.items() if k != "WARPSERVE_UNSUPPORTED"}
        return subprocess.run(
            command, env=clean | environment, capture_output=True, text=True, check=False
        )


# The list


def test_every_row_survives_writing_and_reading() -> None:
    for entries in API.entries.values():
        for entry in entries:
            assert Entry.from_row(entry.row()) == entry


def test_every_type_by_value_has_an_abi() -> None:
    for entries in API.entries.values():
        for entry in filter(lambda entry: entry.is_declared, entries):
            for type in (entry.returns, *(p.type for p in entry.parameters)):
                assert cpp_type(type, API.types)


def test_no_symbol_is_listed_twice_for_a_major() -> None:
    assert len(API.by_symbol) > 6000


def test_names_belong_to_the_library_that_lists_them() -> None:
    strangers = [
        entry.name
        for id, entries in API.entries.items()
        for entry in entries
        if API.family_of(entry.name) is not API.libraries[id]
    ]
    assert strangers == []


def test_runtime_forms_that_changed_with_cuda_13() -> None:
    _, forms = API.by_symbol["cudaMemAdvise"]
    last = {form.cuda: form.parameters[-1].type for form in forms}
    assert last == {(12,): "int", (13,): "cudaMemLocation"}


def test_the_driver_answers_each_version_with_its_form() -> None:
    forms = {e.name: e.lookup for e in API.entries["cuda"] if e.name.startswith("cuCtxCreate")}
    assert forms == {
        "cuCtxCreate": "cuCtxCreate@2000",
        "cuCtxCreate_v2": "cuCtxCreate@3020",
        "cuCtxCreate_v3": "cuCtxCreate@11040",
        "cuCtxCreate_v4": "cuCtxCreate@12050",
    }


ROW = {
    "name": "cudaFoo",
    "cuda": "12 13",
    "treatment": "harmless",
    "returns": "cudaError_t",
    "parameters": "int *device, void (*callback)(void *, int), cudaStream_t stream",
    "variants": "_ptsz",
    "lookup": "",
    "zeroes": "device",
    "note": "because",
}


def test_a_row() -> None:
    entry = Entry.from_row(ROW)
    assert list(ROW) == COLUMNS
    assert entry.symbols == ("cudaFoo", "cudaFoo_ptsz")
    assert entry.parameters[1] == Parameter("void (*)(void *, int)", "callback")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cuda": "11"}, "is not made of"),
        ({"treatment": "maybe"}, "maybe"),
        ({"note": ""}, "says why"),
        ({"zeroes": "stream"}, "no pointer parameters"),
        ({"treatment": "unsupported"}, "only a harmless"),
        ({"parameters": "int"}, "not a type and a name"),
        ({"returns": ""}, "no header declares"),
    ],
)
def test_a_wrong_row_is_refused(change: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Entry.from_row(ROW | change)


def test_parameters_are_split_outside_of_parentheses() -> None:
    assert list(split_parameters("int a, int (*f)(int, int), int b")) == [
        "int a",
        "int (*f)(int, int)",
        "int b",
    ]


def test_the_file_of_an_entry_point_follows_from_its_name() -> None:
    library, forms = API.by_symbol["cuStreamWaitEvent"]
    assert library.file_of(forms[0]) == "cuda/stream.cpp"


# The ABI


@pytest.mark.parametrize(
    ("type", "expected"),
    [
        ("void", "void"),
        ("cudaStream_t", "void*"),
        ("const void *", "const void*"),
        ("void **", "void**"),
        ("const char *const *", "const char* const*"),
        ("cudaStream_t *", "void**"),
        ("const cudaStream_t *", "void* const*"),
        ("size_t *", "std::uint64_t*"),
        ("const cudaDeviceProp *", "const void*"),
        ("dim3 *", "void*"),
        ("dim3", "warpserve::cuda_shim::abi::dim3"),
        ("void (*)(int)", "void*"),
    ],
)
def test_types_travel_without_cuda_headers(type: str, expected: str) -> None:
    assert cpp_type(type, API.types) == expected


def test_an_unknown_type_is_refused() -> None:
    with pytest.raises(ListError, match="Mystery"):
        cpp_type("Mystery", API.types)
    with pytest.raises(ListError, match="unknown ABI"):
        cpp_struct("Mystery", "{q99}")


def toolkit_include() -> Path | None:
    include = Path(os.environ.get("CUDA_HOME", "/usr/local/cuda")) / "include"
    return include if (include / "cuda_runtime_api.h").exists() else None


@pytest.mark.skipif(toolkit_include() is None, reason="needs the headers of the CUDA toolkit")
def test_structures_are_as_large_as_in_the_headers(tmp_path: Path) -> None:
    structs = {
        name: abi
        for name, abi in API.types.items()
        if cpp_struct(name, abi) and re.match(r"cuda[A-Z]|CU(?!file)|dim3", name)
    }
    asserts = "".join(
        f"static_assert(sizeof({n}) == sizeof(abi::{n}) && alignof({n}) == alignof(abi::{n}));\n"
        for n in structs
    )
    definitions = "\n".join(str(cpp_struct(*item)) for item in structs.items())
    source = tmp_path / "sizes.cpp"
    source.write_text(
        "#include <cstdint>\n#include <cuda.h>\n#include <cuda_runtime_api.h>\n"
        f"namespace abi {{\n{definitions}\n}}\n{asserts}"
    )
    assert len(structs) > 8
    compile_cpp(source, f"-isystem{toolkit_include()}")


# Generated code


def test_list_and_built_library_agree(built: Built) -> None:
    faults = [
        *check.check_generated(STUBS, built.major, built.folder),
        *check.check_library(STUBS, built.major, built.library),
    ]
    assert faults == []


def test_an_unsupported_call_names_itself_and_what_to_do_and_fails(built: Built) -> None:
    done = built.run("print(lib.cublasSsyrk_v2(), lib.cublasSsyrk_v2())")
    assert done.stdout == "15 15\n"
    assert done.stderr.count("cublasSsyrk_v2 (cuBLAS) was called from") == 1
    assert API.libraries["cublas"].advice in done.stderr


def test_a_policy_makes_unsupported_calls_warnings(built: Built) -> None:
    done = built.run("print(lib.cublasSsyrk_v2())", WARPSERVE_UNSUPPORTED="warn")
    assert done.stdout == "0\n"
    assert "succeeds without effect" in done.stderr


def test_an_unknown_policy_ends_the_process(built: Built) -> None:
    done = built.run("lib.cublasSsyrk_v2()", WARPSERVE_UNSUPPORTED="perhaps")
    assert done.returncode < 0
    assert "say error or warn" in done.stderr


def test_what_cannot_return_an_error_ends_the_process(built: Built) -> None:
    no_result = built.run("lib.cublasSgemm()")
    assert no_result.returncode < 0
    assert "cublasSgemm (cuBLAS)" in no_result.stderr
    data = built.run("lib.cudnnGetVersion()", WARPSERVE_UNSUPPORTED="warn")
    assert data.returncode < 0
    assert "No result of it would be right" in data.stderr


def test_a_harmless_call_succeeds_in_silence(built: Built) -> None:
    done = built.run("print(lib.cuProfilerStart())")
    assert (done.stdout, done.stderr) == ("0\n", "")


def test_a_status_structure_carries_the_error(built: Built) -> None:
    body = (
        "class Error(ctypes.Structure): _fields_ = [('err', ctypes.c_int), ('cu', ctypes.c_int)]\n"
        "lib.cuFileDriverOpen.restype = Error\n"
        "error = lib.cuFileDriverOpen()\nprint(error.err, error.cu)"
    )
    assert built.run(body).stdout == "5007 0\n"


LOOKUP = """
#include "cuda_shim/api/driver_table.hpp"
#include <cstdio>
#include <dlfcn.h>
using namespace warpserve::cuda_shim;
int main() {
  const auto show = [](const char* name, int version, bool per_thread) {
    const DriverLookup found = find_driver_entry(name, version, per_thread);
    Dl_info info{};
    if (found.function != nullptr) dladdr(found.function, &info);
    std::printf("%d %s\\n", static_cast<int>(found.status), info.dli_sname ? info.dli_sname : "-");
  };
  show("cuCtxCreate", 12040, false);
  show("cuCtxCreate", 12050, false);
  show("cuMemcpyHtoDAsync", 12000, false);
  show("cuMemcpyHtoDAsync", 12000, true);
  show("cuMemcpyHtoDAsync", 6000, true);
  show("cuMemAllocAsync", 10000, false);
  show("cuNothing", 12000, false);
}
"""


def test_driver_functions_are_found_by_name_and_version(built: Built) -> None:
    source = built.folder / "lookup.cc"
    source.write_text(LOOKUP)
    program = built.folder / "lookup"
    objects = [built.folder / f"{name}.o" for name in ("cuda", "driver_table", "unsupported")]
    flags = ["-std=c++20", "-rdynamic", f"-I{ROOT}"]
    subprocess.run(["g++", *flags, source, *objects, "-o", program], check=True)
    shown = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    assert shown.splitlines() == [
        "0 cuCtxCreate_v3",
        "0 cuCtxCreate_v4",
        "0 cuMemcpyHtoDAsync_v2",
        "0 cuMemcpyHtoDAsync_v2_ptsz",
        "0 cuMemcpyHtoDAsync_v2",
        "2 -",
        "1 -",
    ]


def small_api(*entries: Entry) -> Api:
    """The list reduced to some runtime entry points."""
    none: dict[str, list[Entry]] = {id: [] for id in API.libraries}
    return Api(API.libraries, none | {"cudart": list(entries)}, API.types)


def test_outputs_of_a_harmless_call_are_zeroed(tmp_path: Path) -> None:
    entry = Entry.from_row(ROW | {"parameters": "int *device"})
    write_sources(small_api(entry), 13, tmp_path)
    compile_cpp(tmp_path / "cudart.cpp", f"-I{tmp_path}")
    text = (tmp_path / "cudart.cpp").read_text()
    assert "if (device != nullptr) *device = {};" in text


def test_an_opaque_output_cannot_be_zeroed(tmp_path: Path) -> None:
    entry = Entry.from_row(ROW | {"parameters": "cudaDeviceProp *device"})
    with pytest.raises(ListError, match="opaque"):
        write_sources(small_api(entry), 13, tmp_path)


def test_generated_files_that_would_not_change_are_left_alone(tmp_path: Path) -> None:
    first = [path.stat().st_mtime_ns for path in write_sources(API, 13, tmp_path)]
    assert [path.stat().st_mtime_ns for path in write_sources(API, 13, tmp_path)] == first


def test_the_coverage_tables_are_current() -> None:
    assert list(check.check_docs(API, ROOT / "docs/cuda-coverage.md")) == []
    assert "| CUDA driver |" in coverage_tables(API)


# The checker


def test_the_hand_written_code_agrees_with_the_list() -> None:
    assert list(check.check_handwritten(API)) == []


def test_an_implementation_is_looked_for_in_its_file(tmp_path: Path) -> None:
    row = ROW | {"name": "cudaEventQuery", "treatment": "implemented", "zeroes": ""}
    api = small_api(Entry.from_row(row))
    missing = [fault.subject for fault in check.check_handwritten(api, tmp_path)]
    assert missing == ["cudaEventQuery", "cudaEventQuery_ptsz"]
    (tmp_path / "cudart").mkdir()
    (tmp_path / "cudart/event.cpp").write_text("int cudaEventQuery() {}")
    missing = [fault.subject for fault in check.check_handwritten(api, tmp_path)]
    assert missing == ["cudaEventQuery_ptsz"]


def test_all_faults_of_a_built_library_are_reported(built: Built) -> None:
    entries = API.entries["cudart"]
    less = [entry for entry in entries if entry.name not in ("cudaMalloc", "cudaFree")]
    more = [*less, replace(entries[-1], name="cudaImaginary", cuda=CUDA_MAJORS, variants=())]
    api = Api(API.libraries, API.entries | {"cudart": more}, API.types)
    faults = {f.subject for f in check.check_library(api, built.major, built.library)}
    assert faults == {"cudaMalloc", "cudaFree", "cudaImaginary"}


def test_stale_files_are_faults(tmp_path: Path) -> None:
    write_sources(API, 13, tmp_path)
    (tmp_path / "cuda.cpp").write_text("")
    (tmp_path / "nccl.cpp").unlink()
    faults = {Path(fault.subject).name for fault in check.check_generated(API, 13, tmp_path)}
    assert faults == {"cuda.cpp", "nccl.cpp"}


# The coverage command


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    """Packages that reach CUDA in every way."""
    user = tmp_path / "user.c"
    user.write_text(
        "#include <dlfcn.h>\nint cudaMalloc(void); int cudaImaginary(void); int ncclOwn(void);\n"
        'void *find(void *lib) { return dlsym(lib, "cuInit"); }\n'
        'const char *more[] = {"cuMemTeleport", "cudaPeerRegister", "cudaErrorUnknown"};\n'
        "int use(void) { return cudaMalloc() + cudaImaginary() + ncclOwn(); }\n"
    )
    own = tmp_path / "own.c"
    own.write_text("int ncclOwn(void) { return 0; }\n")
    packages = tmp_path / "site-packages"
    packages.mkdir()
    for source in (user, own):
        target = packages / source.with_suffix(".so").name
        subprocess.run(["gcc", "-shared", "-fPIC", "-o", target, source], check=True)
    (packages / "wrapper.py").write_text(
        "import ctypes\nNAMES = ['ncclGetVersion']\nctypes.CDLL('libcudart.so').cudaFree(None)\n"
    )
    (packages / "prose.py").write_text("NAMES = ['ncclReduceScatter', 'ncclImaginary']\n")
    return packages


def test_coverage_finds_imports_and_lookups(environment: Path) -> None:
    found = coverage.scan(environment)
    states = {use.symbol: use.state for use in found.uses.values()}
    assert states == {
        "cudaMalloc": API.by_symbol["cudaMalloc"][1][0].treatment.value,
        "cudaImaginary": "unknown",
        "cuInit": API.by_symbol["cuInit"][1][0].treatment.value,
        "cuMemTeleport": "unknown",
        "cudaPeerRegister": "absent",
        "cudaFree": API.by_symbol["cudaFree"][1][0].treatment.value,
        "ncclGetVersion": API.by_symbol["ncclGetVersion"][1][0].treatment.value,
    }
    assert dict(found.uses["cudaImaginary"].files) == {coverage.Road.IMPORT: {"user.so"}}
    assert dict(found.uses["ncclGetVersion"].files) == {coverage.Road.LOOKUP: {"wrapper.py"}}


def command(*arguments: str) -> tuple[int, str]:
    app = typer.Typer()
    app.command()(coverage.cuda_coverage)
    done = CliRunner().invoke(app, list(arguments))
    return done.exit_code, done.stdout


def test_an_unknown_name_fails_the_command(environment: Path) -> None:
    code, text = command(str(environment))
    assert code == 1
    assert "unknown: cudaImaginary, which user.so imports" in text
    assert "unknown: cuMemTeleport, which user.so looks up" in text
    (environment / "user.so").unlink()
    code, text = command(str(environment), "--json")
    assert code == 0
    assert [use["symbol"] for use in json.loads(text)["uses"]] == [
        "cudaFree",
        "ncclGetVersion",
    ]


def test_a_broken_file_fails_the_command(environment: Path) -> None:
    (environment / "user.so").write_bytes(b"\x7fELF")
    code, text = command(str(environment))
    assert code == 1
    assert "not read:" in text


def test_cuda_libraries_looking_each_other_up_do_not_count(environment: Path) -> None:
    (environment / "user.so").rename(environment / "libcudart.so.13")
    found = coverage.scan(environment)
    assert [use.symbol for use in found.unknown] == ["cudaImaginary"]

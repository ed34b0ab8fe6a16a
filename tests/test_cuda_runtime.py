"""Programs on the virtual GPU: CUDA's answers, its errors, and time to the nanosecond."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness import Outcome, Warpserve
from warpserve.cuda_shim.api import check
from warpserve.cuda_shim.api.generate import in_major, write_sources
from warpserve.cuda_shim.api.model import CUDA_MAJORS, Api, Treatment
from warpserve.cuda_shim.catalogue import Catalogue, machine
from warpserve.cuda_shim.catalogue.export import lines
from warpserve.cuda_shim.launch import cuda_major
from warpserve.errors import SessionError
from warpserve.timekeeper.native import native_file

ROOT = Path(__file__).parents[1]
PROGRAMS = Path(__file__).parent / "cuda"
MAJOR = 13
GPU = "h100-sxm:2"
MS = 1_000_000


@pytest.fixture(scope="module", params=["nvcc 13", "nvcc-static 13", "c++ 13", "c++ 12"])
def compiler(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Compiler:
    name, major = request.param.split()
    if name.startswith("nvcc") and not _nvcc_is_of(MAJOR):
        pytest.skip(f"nvcc {MAJOR} is not installed; c++ compiles the same programs instead")
    return Compiler(name, int(major), tmp_path_factory.mktemp("programs"))


def _nvcc_is_of(major: int) -> bool:
    if shutil.which("nvcc") is None:
        return False
    told = subprocess.run(["nvcc", "--version"], capture_output=True, text=True, check=True).stdout
    return f"release {major}." in told


class Compiler:
    """Compiles the programs of ``tests/cuda`` as a user would: by nvcc, against either runtime."""

    def __init__(self, name: str, major: int, folder: Path) -> None:
        self.name = name
        self.major = major
        self.folder = folder
        self._built: dict[str, Path] = {}

    def __call__(self, name: str) -> Path:
        if name not in self._built:
            self._built[name] = self.folder / name
            command = self._cxx() if self.name == "c++" else self._nvcc()
            source = PROGRAMS / f"{name}.cu"
            subprocess.run([*command, "-std=c++20", source, "-o", self._built[name]], check=True)
        return self._built[name]

    def _nvcc(self) -> list[str]:
        return ["nvcc"] if self.name == "nvcc-static" else ["nvcc", "-cudart", "shared"]

    def _cxx(self) -> list[str]:
        """Without CUDA: against the generated prototypes, and our library under its soname."""
        headers = self.folder / "generated"
        write_sources(Api.load(), self.major, headers)
        soname = self.folder / f"libcudart.so.{self.major}"
        if not soname.is_symlink():
            soname.symlink_to(native_file(f"libwarpserve_gpu_{self.major}.so"))
        link = ["-Wl,--no-as-needed", f"-L{self.folder}", f"-l:{soname.name}"]
        return ["c++", f"-I{headers}", f"-I{ROOT}", *link, "-x", "c++"]


def run(warpserve: Warpserve, *command: str | Path, env: dict[str, str] | None = None) -> Outcome:
    done = warpserve.run(command, options=["--gpu", GPU], env=env)
    assert done.exit_code == 0, done.stdout + done.stderr
    return done


def answers(done: Outcome) -> dict[str, str]:
    return dict(line.rsplit(" ", 1) for line in done.stdout.splitlines())


# The list


@pytest.mark.parametrize("major", CUDA_MAJORS)
def test_the_list_the_files_and_the_library_agree(major: int) -> None:
    api = Api.load()
    library = native_file(f"libwarpserve_gpu_{major}.so")
    assert [*check.check_handwritten(api), *check.check_library(api, major, library)] == []


# Time


def test_streams_copies_and_graphs_end_when_computed_by_hand(
    warpserve: Warpserve, compiler: Compiler
) -> None:
    told = {
        name: int(value) for name, value in answers(run(warpserve, compiler("schedule"))).items()
    }
    gpu = Catalogue().gpu("h100-sxm")
    copy_ns = math.ceil((64 << 20) * 1e9 / gpu.host_copy_bandwidth_bytes_per_s)
    assert told == {
        "empty_kernel": 0,
        "not_ready": 600,
        "enqueued": 0,
        "joined": (5 + 3) * MS,
        "copy_beside_work": max(copy_ns, MS),
        "copy_us": copy_ns // 1000,
        "nodes": 3,
        "two_graphs": 2 * (4 + 2) * MS,
        "moved": 255 * 255,
    }


# Errors


def test_wrong_use_gets_the_errors_of_the_driver(warpserve: Warpserve, compiler: Compiler) -> None:
    told = answers(run(warpserve, compiler("errors")))
    assert told == json.loads((PROGRAMS / "errors.json").read_text())


def test_every_error_has_a_name() -> None:
    source = (ROOT / "cuda_shim/entry/error.hpp").read_text()
    codes = re.findall(r"^  k\w+ = (\d+),", source, re.MULTILINE)
    body = (
        f"import ctypes; gpu = ctypes.CDLL('{native_file(f'libwarpserve_gpu_{MAJOR}.so')}')\n"
        "gpu.cudaGetErrorName.restype = ctypes.c_char_p\n"
        f"for code in ({', '.join(codes)}): print(code, gpu.cudaGetErrorName(code).decode())"
    )
    done = subprocess.run([sys.executable, "-c", body], capture_output=True, text=True, check=True)
    names = dict(line.split(" ", 1) for line in done.stdout.splitlines())
    assert names["12"] == "cudaErrorInvalidPitchValue"
    assert [code for code, name in names.items() if not name.startswith("cuda")] == []


def test_null_pointers_are_errors_and_never_a_crash(warpserve: Warpserve, tmp_path: Path) -> None:
    api = Api.load()
    names = [
        symbol
        for id in ("cuda", "cudart", "nvml", "nvrtc", "cublas", "cublasLt", "cudnn", "nccl")
        for entry in in_major(api.entries[id], MAJOR)
        for symbol in entry.symbols
        if entry.treatment is Treatment.IMPLEMENTED and entry.returns not in ("void", "void **")
    ]
    assert len(names) > 500
    asked = tmp_path / "names"
    asked.write_text(" ".join(names))
    done = run(warpserve, "sh", "-c", f"{sys.executable} {PROGRAMS / 'nulls.py'} < {asked}")
    assert done.stdout.splitlines()[-1] == "done"


@pytest.mark.parametrize("seed", range(1, 4))
def test_random_wrong_use_gets_errors_and_never_a_crash(warpserve: Warpserve, seed: int) -> None:
    done = run(warpserve, sys.executable, PROGRAMS / "fuzz.py", str(seed), "2000")
    codes = json.loads(done.stdout)
    assert set(codes) == {"0", "1", "2", "21", "98", "101", "400", "401"}
    assert min(codes.values()) > 20


def test_memory_through_the_driver(warpserve: Warpserve) -> None:
    told = json.loads(run(warpserve, sys.executable, PROGRAMS / "memory.py").stdout)
    quarter_ns, whole_ns = told["batches"].pop("durations_ns")
    assert whole_ns == pytest.approx(4 * quarter_ns, rel=0.01), "a batch lasts as long as its bytes"
    assert told.pop("batches") == {
        "there": [[1, 2, 3, 4], [5, 6, 7, 8]],
        "back": [9, 9, 9, 9],
        "empty": 1,
    }
    assert told == {
        "mappings": {
            "granularity": Catalogue().gpu("h100-sxm").allocation_granularity_bytes,
            "seen": [[7, 7, 7, 7]] * 2,
            "release_again": 1,
        },
        "pools": {"used": True},
        "frees in order": {"holds": [2, 2, 2, 2], "reused": True},
        "pinned memory is awaited": True,
        "pointers": {
            "attributes": [[2, 0, 0], [0, 0, -2]],
            "base": True,
            "size": 1000,
            "type": 2,
            "past": 1,
            "freed": 1,
        },
        "ipc": {"child": 0, "written": [42, 42, 42, 42]},
        "fork": 3,
        "anew": {"a parent without memory": 0, "not forked": 0},
        "anew with memory": 3,
    }


def test_contexts_as_runtime_and_driver_share_them(warpserve: Warpserve) -> None:
    told = json.loads(run(warpserve, sys.executable, PROGRAMS / "contexts.py").stdout)
    assert told == {
        "none": [False, False, *[201] * 8],
        "driver": {
            "active": [True, False],
            "released": [0, 201],
            "memory": 1,
            "destroyed": 709,
            "current": 0,
        },
        "made": [0, 1],
        "initialized": [0, True, False],
        "runtime": [True, *[0] * 8],
        "thread": [False, [True, *[0] * 8]],
        "beside": {"released": 0, "active": True, "kept": True},
    }


def test_what_is_beyond_a_device_is_refused(warpserve: Warpserve) -> None:
    """By that programs find the largest tile that they can have."""
    told = json.loads(run(warpserve, sys.executable, PROGRAMS / "limits.py").stdout)
    assert told == {
        "launch": [0, 1],
        "attribute": [0, 1, 1, 400],
        "told": True,
        "prefetch": [0, 1, 1, 1],
        "flags": [0, 0, 1, 1],
    }


def test_events_values_and_graph_memory(warpserve: Warpserve) -> None:
    """Between streams and processes, each at its instant."""
    told = json.loads(run(warpserve, sys.executable, PROGRAMS / "sharing.py").stdout)
    assert told == {
        "events": {
            "child": {"not_ready": 600, "waited_ms": 100},
            "both_ms": 103,
            "value_ms": 103,
            "own": 400,
            "destroyed": 400,
        },
        "values": {
            "ends": [[600, 2], [600, 2], [600, 2], [0, 0]],
            "misaligned": 1,
            "compute": 801,
        },
        "graphs": {
            "early": 1,
            "used_gib": 1,
            "attributes": [[(1 << 30) + 64] * 4, [0, 0, 0, (1 << 30) + 64]],
            "left": True,
            "read": [7, 7, 7, 7],
            "freed": [0, 1],
            "gone": True,
        },
        "populating": {"locked": 0, "resident_below_1_gib": True},
    }


def test_full_gpus_cost_the_host_nothing(warpserve: Warpserve) -> None:
    done = warpserve.run([sys.executable, PROGRAMS / "fill.py"], options=["--gpu", "h100-sxm:8"])
    assert done.exit_code == 0, done.stderr
    told = json.loads(done.stdout)
    assert len(told["filled_bytes"]) == 8
    assert min(told["filled_bytes"]) > 78 << 30
    assert told["resident_bytes"] < 150e6


# Roads


def test_what_broke_other_interposers(warpserve: Warpserve) -> None:
    told = json.loads(run(warpserve, sys.executable, PROGRAMS / "hami.py").stdout)
    assert told == {
        "before_init": -3,
        "device": [0] * 8,
        "device_shared": [0] * 9,
        "fabric": 801,
        "host": [0] * 9,
        "host_numa": [0] * 10,
        "peers": {
            "can_access": [1, 1, 0, -101],
            "driver": [1, 1, 0, -101],
            "attributes": [0, 1, 1, 1],
            "enable": 0,
            "enable_again": 704,
        },
        "wrong_devices": {
            "get": [0, 1, -101, -101],
            "attribute": [9, -101, -101],
            "retain": 101,
            "memory": [101, 101],
            "numa_node": 101,
        },
        "multicast": 1,
        "fabric_supported": 1,
        "host_numa_supported": 1,
    }


@pytest.mark.parametrize(
    ("gpus", "state", "remote", "peer_to_peer", "version"),
    [
        ("h100-sxm:1", 1, 2, 1, 6),
        ("a100-80:2", 1, 2, 1, 5),
        ("b200:2", 1, 2, 1, 7),
        ("h100-pcie:2", 0, 255, 0, 6),
        ("h100-pcie:2@pcie-nvlink-pairs", 1, 0, 1, 6),
    ],
)
def test_nvlinks_are_those_of_the_box(
    warpserve: Warpserve, gpus: str, state: int, remote: int, peer_to_peer: int, version: int
) -> None:
    done = warpserve.run([sys.executable, PROGRAMS / "nvlink.py"], options=["--gpu", gpus])
    assert json.loads(done.stdout) == [state, remote, peer_to_peer, version], done.stderr


def test_all_roads_lead_to_the_virtual_gpu(warpserve: Warpserve, tmp_path: Path) -> None:
    done = run(warpserve, sys.executable, PROGRAMS / "roads.py", tmp_path)
    told = json.loads(done.stdout)
    box = machine(GPU)
    assert told["nvml"] == {
        "before_init": 1,
        "count": 2,
        "name": "NVIDIA H100 80GB HBM3",
        "uuids": [f"GPU-{device.uuid}" for device in box.devices],
        "p2p": [0, 0, 0, 0, 4],
        "nvlink_0": 1,
        "nvlink_18": -2,
        "index_2": 2,
        "driver": box.gpu.driver_version,
    }
    assert told["driver"] == {
        "before_init": -3,
        "found": [[True, 0], [False, 1]],
        "count": 2,
        "device_2": 101,
        "no_context": 201,
        "export_table": 500,
    }
    assert told["path"] == {"count": 2, "is_ours": True}
    assert told["wheels"] == [told["path"]] * 2
    assert told["enqueue"] == [0, 1]
    assert told["child"] == 2


@pytest.mark.skipif(not _nvcc_is_of(MAJOR), reason=f"nvcc {MAJOR} is not installed")
@pytest.mark.parametrize("stripped", [False, True])
def test_libraries_with_a_static_runtime(
    warpserve: Warpserve, tmp_path: Path, stripped: bool
) -> None:
    library = tmp_path / "libuser.so"
    source = PROGRAMS / "static_library.cu"
    shared = ["-shared", "-Xcompiler", "-fPIC"]
    subprocess.run(["nvcc", "-std=c++20", *shared, source, "-o", library], check=True)
    if stripped:
        subprocess.run(["strip", library], check=True)
    main = '#include <stdio.h>\nint launch(); int main() { printf("%d\\n", launch()); }'
    link = ["-x", "c", "-", f"-L{tmp_path}", "-luser", f"-Wl,-rpath={tmp_path}"]
    program = tmp_path / "linked"
    subprocess.run(["cc", *link, "-o", program], input=main, text=True, check=True)
    opened = f"import ctypes; print(ctypes.CDLL({str(library)!r}).launch())"
    for command in ([program], [sys.executable, "-c", opened]):
        done = run(warpserve, *command)
        assert done.stdout == ("500\n" if stripped else "0\n")
        assert ("link with -cudart shared" in done.stderr) == stripped


def test_compiling_at_run_time_gives_an_image(warpserve: Warpserve) -> None:
    told = json.loads(run(warpserve, sys.executable, PROGRAMS / "nvrtc.py").stdout)
    assert told == {
        "version": [0, [MAJOR, 0]],
        "no_source": 3,
        "codes": [0, 0, 0],
        "early": [[4, 4], [9, None]],
        "image": [0, 0],
        "lowered": [[0, "fill<int>"], [10, None]],
        "late": 8,
        "launch": [0, 0, 0, 0, 0, 0],
        "destroyed": [0, 4],
    }


def test_visible_devices_are_counted_from_zero(warpserve: Warpserve) -> None:
    body = (
        "import ctypes; r = ctypes.CDLL('libcudart.so'); c = ctypes.c_int()\n"
        "r.cudaGetDeviceCount(ctypes.byref(c)); b = ctypes.create_string_buffer(32)\n"
        "r.cudaDeviceGetPCIBusId(b, 32, 0); print(c.value, b.value.decode())"
    )
    seen = {}
    for visible in ("1", "1,0", "1,1", "", "7", "0,7"):
        done = run(warpserve, sys.executable, "-c", body, env={"CUDA_VISIBLE_DEVICES": visible})
        seen[visible] = done.stdout.split()
    second = machine(GPU).devices[1].slot.pci_bus_id
    assert seen["1"] == ["1", second]
    assert seen["1,0"] == ["2", second]
    assert seen["1,1"] == ["1", second]
    assert [seen[none][0] for none in ("", "7", "0,7")] == ["0", "0", "1"]


def test_without_a_session_the_host_clock_counts(tmp_path: Path, compiler: Compiler) -> None:
    (tmp_path / "gpus").write_text("\n".join(lines(machine(GPU))) + "\n")
    library = native_file(f"libwarpserve_gpu_{compiler.major}.so")
    (tmp_path / f"libcudart.so.{compiler.major}").symlink_to(library)
    done = subprocess.run(
        [compiler("schedule")],
        env={
            **os.environ,
            "LD_PRELOAD": str(library),
            "LD_LIBRARY_PATH": str(tmp_path),
            "WARPSERVE_GPUS": str(tmp_path / "gpus"),
        },
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "moved 65025" in done.stdout


def test_without_gpus_calls_say_what_to_do() -> None:
    library = native_file(f"libwarpserve_gpu_{MAJOR}.so")
    body = (
        f"import ctypes; gpu = ctypes.CDLL('{library}')\n"
        "print(gpu.cudaGetDeviceCount(ctypes.byref(ctypes.c_int())))"
    )
    done = subprocess.run([sys.executable, "-c", body], capture_output=True, text=True, timeout=60)
    assert done.stdout == "100\n"
    assert "warpserve run --gpu" in done.stderr


# Launching


def test_an_unknown_gpu_is_refused(warpserve: Warpserve) -> None:
    done = warpserve.run(["true"], options=["--gpu", "h1000:2"])
    assert done.exit_code == 2
    assert "h1000" in done.stderr


def torch_version(cuda: str) -> str:
    """As torch/version.py has it."""
    return f"__version__ = '2.11.0'\ncuda: Optional[str] = '{cuda}'\n"


def test_the_cuda_major_follows_from_the_command(tmp_path: Path) -> None:
    packages = tmp_path / "lib/python3.11/site-packages"
    (packages / "torch").mkdir(parents=True)
    (packages / "torch/version.py").write_text(torch_version("12.8"))
    (tmp_path / "bin").mkdir()
    python = tmp_path / "bin/python3"
    python.symlink_to(sys.executable)
    script = tmp_path / "bin/vllm"
    script.write_text(f"#!{python}\n")
    script.chmod(0o755)
    env = {"PATH": str(tmp_path / "bin")}
    assert cuda_major([str(python)], env) == 12
    assert cuda_major(["vllm"], env) == 12
    assert cuda_major(["vllm"], {**env, "WARPSERVE_CUDA": "13"}) == 13
    assert cuda_major(["no-such-command"], env) == 13
    with pytest.raises(SessionError, match="say 12 or 13"):
        cuda_major(["vllm"], {**env, "WARPSERVE_CUDA": "11"})
    program = tmp_path / "bin/static"
    for name, major in (("cudaGetDeviceProperties_v2", 12), ("cudaGetDeviceProperties", 13)):
        source = f"int libcudart_static_0, {name}; int main() {{}}"
        subprocess.run(["cc", "-x", "c", "-", "-o", program], input=source, text=True, check=True)
        assert cuda_major(["static"], env) == major
    (packages / "torch/version.py").write_text(torch_version("11.8"))
    with pytest.raises(SessionError, match="built for CUDA 11"):
        cuda_major(["vllm"], env)

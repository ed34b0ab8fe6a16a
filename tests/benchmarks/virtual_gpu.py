"""The figures of the virtual GPU: what calls cost the host, beside torch's own dispatch."""

from __future__ import annotations

import statistics
import subprocess
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.benchmarks.figure import Figure
from tests.environments import require_torch
from warpserve.cuda_shim.api.generate import write_sources
from warpserve.cuda_shim.api.model import Api
from warpserve.timekeeper.native import native_file

ROOT = Path(__file__).parents[2]
MAJOR = 13
_CALLS = {
    "launch": "launch of a kernel",
    "record_and_wait": "record of an event, and a wait for it in the stream",
    "malloc_1_kib": "cudaMalloc and cudaFree of 1 KiB",
    "malloc_64_mib": "cudaMalloc and cudaFree of 64 MiB",
}
_DISPATCH = """
import ctypes, statistics, torch
host_now = ctypes.CDLL(None).ws_host_now_ns
host_now.restype = ctypes.c_int64
x, y, samples = torch.ones(4), torch.ones(4), []
for _ in range(200):
    begin = host_now()
    for _ in range(50):
        x.add_(y)
    samples.append((host_now() - begin) / 50)
print(statistics.median(samples))
"""
_IMPORT = """
import os, time, torch
if "WARPSERVE_GPUS" in os.environ:
    torch.cuda.init()
print(time.process_time())
"""
_IMPORTS = 3


def figures() -> Iterator[Figure]:
    """All figures, measured one after the other."""
    with TemporaryDirectory() as folder:
        output = _in_session(str(_program(Path(folder))))
    for line in output.splitlines():
        name, median_ns = line.split()
        yield Figure(f"{_CALLS[name]}, host time", float(median_ns), "ns", None)
    python = str(require_torch()[-1])
    ns = float(_in_session(python, "-c", _DISPATCH))
    yield Figure("torch's CPU dispatch of x.add_(y), 4 elements", ns, "ns", None)
    plain_s = statistics.median(_import_s(python) for _ in range(_IMPORTS))
    added_s = statistics.median(_import_s(*_session(python)) for _ in range(_IMPORTS)) - plain_s
    yield Figure("import torch, processor time", plain_s, "s", None)
    what = "added to it by a session with GPUs, torch.cuda.init() included, processor time"
    yield Figure(what, added_s, "s", None)


def _program(folder: Path) -> Path:
    """``tests/cuda/overhead.cu``, compiled without CUDA."""
    write_sources(Api.load(), MAJOR, folder)
    library = folder / f"libcudart.so.{MAJOR}"
    library.symlink_to(native_file(f"libwarpserve_gpu_{MAJOR}.so"))
    source, program = ROOT / "tests/cuda/overhead.cu", folder / "overhead"
    link = ["-Wl,--no-as-needed", f"-L{folder}", f"-l:{library.name}"]
    flags = ["-O2", "-std=c++20", f"-I{folder}", f"-I{ROOT}"]
    subprocess.run(["c++", *flags, *link, "-x", "c++", source, "-o", program], check=True)
    return program


def _session(*command: str) -> list[str]:
    return ["warpserve", "run", "--gpu", "h100-sxm", "--", *command]


def _in_session(*command: str) -> str:
    return subprocess.run(_session(*command), check=True, capture_output=True, text=True).stdout


def _import_s(*python: str) -> float:
    """Processor time of a process that imports torch; of the host's, also in a session."""
    command = [*python, "-c", _IMPORT]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)

"""What ``--gpu`` adds to the environment of a session's members.

One library stands in for all CUDA libraries of one major. It is preloaded, and the session's folder
gets a folder of links under the libraries' own names, for the loader to find.

Which CUDA major a command needs is asked in this order:

1. ``WARPSERVE_CUDA`` in the environment: 12 or 13;
2. the command is a program that was linked against ``libcudart.so.12`` or ``.13``, or with the
   static runtime of either;
3. the command's Python (the command itself, its ``#!`` line, or ``python`` in PATH) has a torch
   built for CUDA, or NVIDIA's runtime wheel;
4. else 13.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

import warpserve
from warpserve.cache import cache_folder
from warpserve.cuda_shim import nvidia_smi
from warpserve.cuda_shim.api.model import CUDA_MAJORS, load_libraries
from warpserve.cuda_shim.catalogue import export, machine
from warpserve.cuda_shim.torch_ops.build import Torch
from warpserve.cuda_shim.torch_ops.build import library as torch_ops_library
from warpserve.errors import SessionError
from warpserve.timekeeper.native import native_file

_CUDA_VARIABLE = "WARPSERVE_CUDA"
_DEFAULT_MAJOR = 13
_RUNTIME = re.compile(r"libcudart\.so\.(\d+)")
_STATIC_RUNTIME = b"\0libcudart_static_"
"""How the names of the static runtime's own functions begin."""
_STATIC_MAJORS = ((b"\0cudaBindTexture\0", 11), (b"\0cudaGetDeviceProperties_v2\0", 12))
"""Functions that the static runtime of a major is the last to have."""
_KERNEL_CACHES = ("CUPY_CACHE_DIR", "DG_JIT_CACHE_DIR", "PYTORCH_KERNEL_CACHE_PATH")
"""Where CuPy, DeepGEMM and torch keep what they have compiled: ours is for no real GPU."""
AUTOLOAD = Path(warpserve.__file__).parent / "patches" / "autoload"
"""What PYTHONPATH names for torch to load our patches into its process."""
AUTOLOAD_VARIABLE = "TORCH_DEVICE_BACKEND_AUTOLOAD"
"""torch's own: 0 keeps it from calling the entry points of ``torch.backends``."""
_WHEELS = {"nvidia/cu13": 13, "nvidia/cuda_runtime": 12}
"""Folders of site-packages in which NVIDIA's wheels keep the runtime of a major."""


def gpu_environment(
    spec: str, folder: Path, command: Sequence[str], base: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The environment of members that see the GPUs of ``spec``, such as ``h100-sxm:2``.

    Writes ``gpus``, ``cuda/`` and ``bin/`` into the session's ``folder``. Raises CatalogueError for
    a spec that names no GPUs, SessionError where the CUDA major can't be chosen.
    """
    env = dict(os.environ if base is None else base)
    described = machine(spec)
    major = cuda_major(command, env)
    library = native_file(f"libwarpserve_gpu_{major}.so")
    gpus = folder / "gpus"
    gpus.write_text("".join(f"{line}\n" for line in export.lines(described)))
    links = _link_libraries(folder / "cuda", library, major)
    env["WARPSERVE_GPUS"] = str(gpus)
    env[_CUDA_VARIABLE] = str(major)
    env["LD_PRELOAD"] = _join(str(library), env.get("LD_PRELOAD"))
    env["LD_LIBRARY_PATH"] = _join(str(links), env.get("LD_LIBRARY_PATH"))
    env["WARPSERVE_CACHE_FOLDER"] = str(cache_folder())
    env["PYTHONPATH"] = _join(str(AUTOLOAD), env.get("PYTHONPATH"))
    env["PATH"] = _join(str(_write_programs(folder / "bin")), env.get("PATH"))
    # vLLM looks for the runtime among the names of mapped files, where ours has another name.
    env.setdefault("VLLM_CUDART_SO_PATH", str(library))
    env.setdefault("VLLM_NCCL_SO_PATH", str(library))
    env.setdefault("SGLANG_NCCL_SO_PATH", str(library))
    for variable in _KERNEL_CACHES:
        env[variable] = str(folder / "kernels")
    env["DG_JIT_USE_NVRTC"] = "1"  # which is ours; else DeepGEMM calls nvcc
    return env


def prepare_torch(command: Sequence[str], env: Mapping[str, str]) -> None:
    """Builds what the torch of the command's Python loads in members, where it is not there yet.

    Raises InstallationError where it can't be built, SessionError where torch would not load it.
    """
    program = shutil.which(command[0], path=env.get("PATH"))
    interpreter = _interpreter(Path(program), env.get("PATH")) if program else None
    torch = Torch.of(interpreter) if interpreter else None
    if torch is None:
        return
    if env.get(AUTOLOAD_VARIABLE) == "0":
        raise SessionError(
            f"{AUTOLOAD_VARIABLE}=0 keeps torch from loading the operators that make up for the "
            "virtual GPU's kernels: unset it"
        )
    torch_ops_library(torch, cache_folder())


def cuda_major(command: Sequence[str], env: Mapping[str, str]) -> int:
    """The CUDA major that a command needs, by the rules above."""
    if asked := env.get(_CUDA_VARIABLE):
        if asked not in map(str, CUDA_MAJORS):
            raise SessionError(
                f"{_CUDA_VARIABLE}={asked}: say {' or '.join(map(str, CUDA_MAJORS))}"
            )
        return int(asked)
    program = shutil.which(command[0], path=env.get("PATH"))
    if program is None:
        return _DEFAULT_MAJOR
    return (
        _linked_major(Path(program))
        or _python_major(_interpreter(Path(program), env.get("PATH")))
        or _DEFAULT_MAJOR
    )


def _linked_major(program: Path) -> int | None:
    """Of the runtime that an ELF program needs or contains."""
    with program.open("rb") as file:
        if file.read(4) != b"\x7fELF":
            return None
        elf = ELFFile(file)
        dynamic = elf.get_section_by_name(".dynamic")
        if isinstance(dynamic, DynamicSection):
            for tag in dynamic.iter_tags("DT_NEEDED"):
                if found := _RUNTIME.fullmatch(vars(tag)["needed"]):
                    return _known(int(found[1]))
        symbols = elf.get_section_by_name(".symtab")
        return (
            _static_major(symbols.stringtable.data())
            if isinstance(symbols, SymbolTableSection)
            else None
        )


def _static_major(names: bytes) -> int | None:
    """Of the static runtime that a program contains, by the names of its symbols."""
    if _STATIC_RUNTIME not in names:
        return None
    older = (major for name, major in _STATIC_MAJORS if name in names)
    return _known(next(older, max(CUDA_MAJORS)))


def _interpreter(program: Path, search: str | None) -> Path | None:
    """The Python that a command runs in, not resolved: a virtual environment is a link."""
    if re.fullmatch(r"python[\d.]*", program.name):
        return program
    with program.open("rb") as file:
        line = file.readline(512)
    words = line[2:].split() if line.startswith(b"#!") else []
    for word in words:
        if re.fullmatch(rb"python[\d.]*", word.rpartition(b"/")[2]):
            found = shutil.which(word.decode(errors="replace"), path=search)
            return Path(found) if found else None
    found = shutil.which("python", path=search)
    return Path(found) if found else None


def _python_major(interpreter: Path | None) -> int | None:
    if interpreter is None:
        return None
    for packages in sorted(interpreter.parent.parent.glob("lib/python3*/site-packages")):
        if torch := Torch.at(packages / "torch"):
            return _known(int(torch.cuda.partition(".")[0]))
        for wheel, major in _WHEELS.items():
            if (packages / wheel).is_dir():
                return major
    return None


def _known(major: int) -> int:
    if major not in CUDA_MAJORS:
        raise SessionError(
            f"the command was built for CUDA {major}; the virtual GPU stands in for CUDA "
            f"{' and '.join(map(str, CUDA_MAJORS))}"
        )
    return major


def _link_libraries(folder: Path, library: Path, major: int) -> Path:
    """A folder in which every CUDA library's name is a link to ours."""
    folder.mkdir()
    names = {described.soname[major] for described in load_libraries().values()}
    for name in names | {"libcuda.so", "libnvidia-ml.so"}:
        (folder / name).symlink_to(library)
    return folder


def _write_programs(folder: Path) -> Path:
    """A folder with an `nvidia-smi` in it."""
    folder.mkdir()
    program = folder / "nvidia-smi"
    command = shlex.join([sys.executable, "-I", "-S", nvidia_smi.__file__])
    program.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
    program.chmod(0o700)
    return folder


def _join(first: str, others: str | None) -> str:
    return f"{first}:{others}" if others else first

"""Builds the library against a torch, once, and keeps it in the user's cache folder.

Used by the launcher, and in members whose torch the launcher could not know: nothing but the
standard library, Python 3.10 and newer.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from warpserve.errors import InstallationError

_SOURCES = Path(__file__).parent
_INCLUDE_ROOT = Path(__file__).parents[2]
_PUBLIC_HEADER = _INCLUDE_ROOT / "cuda_shim" / "warpserve_gpu.h"
_FLAGS = ("-std=c++20", "-O2", "-fPIC", "-fvisibility=hidden")
_LIBRARIES = ("-lc10", "-ltorch_cpu", "-ltorch_cuda")
_VERSION = re.compile(r"^__version__\s*=\s*'([^']+)'", re.MULTILINE)
_CUDA = re.compile(r"^cuda\b[^=]*=\s*'([^']+)'", re.MULTILINE)


@dataclass(frozen=True)
class Torch:
    """An installed torch that was built for CUDA."""

    folder: Path
    version: str
    cuda: str

    @classmethod
    def at(cls, folder: Path) -> Torch | None:
        """The one in that folder, of site-packages; None where there is none for CUDA."""
        description = folder / "version.py"
        if not description.exists():
            return None
        text = description.read_text()
        version, cuda = _VERSION.search(text), _CUDA.search(text)
        return cls(folder, version[1], cuda[1]) if version and cuda else None

    @classmethod
    def of(cls, python: Path) -> Torch | None:
        """The one beside an interpreter."""
        for packages in sorted(python.parent.parent.glob("lib/python3*/site-packages")):
            if found := cls.at(packages / "torch"):
                return found
        return None

    @property
    def uses_cxx11_abi(self) -> bool:
        """Of libstdc++'s two ABIs for strings, which must be the same on both sides."""
        return b"__cxx11" in (self.folder / "lib" / "libc10.so").read_bytes()


def prepare(python: Path, cache: Path) -> Path | None:
    """The library for the torch of an interpreter; None where that has none for CUDA."""
    torch = Torch.of(python)
    return None if torch is None else library(torch, cache)


def library(torch: Torch, cache: Path) -> Path:
    """The library for ``torch`` in the cache folder, built if it is not there.

    Says on standard error that it builds. Raises InstallationError where it can't, naming the log.
    """
    path = cache / "torch_ops" / _key(torch) / "libwarpserve_torch_ops.so"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with _locked(path.parent / "lock"):
            if not path.exists():
                print(
                    f"warpserve: building the bookkeeping operators for torch {torch.version}, "
                    "once (about a minute)",
                    file=sys.stderr,
                    flush=True,
                )
                _build(torch, path)
    return path


def _key(torch: Torch) -> str:
    abi = "cxx11" if torch.uses_cxx11_abi else "cxx03"
    digest = hashlib.sha256(repr(_FLAGS).encode())
    for source in (*sorted(_SOURCES.glob("*.[chi]*")), _PUBLIC_HEADER):
        digest.update(source.name.encode() + b"\0" + source.read_bytes())
    digest.update((torch.folder / "version.py").read_bytes())
    return f"torch-{torch.version}-cuda-{torch.cuda}-{abi}-{digest.hexdigest()[:16]}"


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _build(torch: Torch, path: Path) -> None:
    compiler = _compiler(torch)
    abi = f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.uses_cxx11_abi)}"
    headers = torch.folder / "include"
    includes = (f"-I{_INCLUDE_ROOT}", "-isystem", str(headers))
    sources = sorted(_SOURCES.glob("*.cpp"))
    with tempfile.TemporaryDirectory(dir=path.parent) as scratch:
        objects = [Path(scratch) / f"{source.stem}.o" for source in sources]
        commands = [
            (compiler, *_FLAGS, abi, *includes, "-c", str(source), "-o", str(made))
            for source, made in zip(sources, objects, strict=True)
        ]
        built = Path(scratch) / path.name
        link = (compiler, "-shared", "-o", str(built), *map(str, objects))
        with (path.parent / "build.log").open("w") as log:
            with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
                list(pool.map(lambda command: _run(command, log.name), commands))
            _run((*link, f"-L{torch.folder / 'lib'}", *_LIBRARIES), log.name)
        built.chmod(0o700)
        built.replace(path)


def _compiler(torch: Torch) -> str:
    compiler = shutil.which(os.environ.get("CXX", "g++")) or shutil.which("c++")
    if compiler is None:
        raise InstallationError(
            "the virtual GPU executes torch's bookkeeping operators with a library that is built "
            "once for each torch, and there is no g++ to build it with; on Debian: "
            "apt-get install g++"
        )
    if not (torch.folder / "include" / "ATen" / "core" / "Tensor.h").exists():
        raise InstallationError(
            f"{torch.folder} has no C++ headers (include/ATen), which the virtual GPU's "
            "bookkeeping operators are built with; install torch from its wheel again"
        )
    return compiler


def _run(command: Sequence[str], log: str) -> None:
    with Path(log).open("a") as output:
        print(*command, file=output, flush=True)
        code = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=_outside()
        ).returncode
    if code != 0:
        raise InstallationError(
            f"the bookkeeping operators of the virtual GPU could not be built: {command[0]} "
            f"failed with exit code {code}; see {log}"
        )


def _outside() -> Mapping[str, str]:
    """An environment in which the compiler is no member of a session."""
    left_out = {"LD_PRELOAD", "LD_LIBRARY_PATH"}
    return {k: v for k, v in os.environ.items() if k not in left_out} | {"WARPSERVE_SESSION": ""}

"""The bookkeeping operators of the virtual GPU, loaded into this process' torch."""

from __future__ import annotations

import atexit
import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_CACHE_VARIABLE = "WARPSERVE_CACHE_FOLDER"
"""Where the library is kept: set by the launcher."""
_REPORT_VARIABLE = "WARPSERVE_TORCH_OPS_REPORT"
"""``all``: name every operator at the end of the process, instead of the first few."""
_NAMED = 5
_EACH = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_uint64, ctypes.c_uint64)


@dataclass(frozen=True)
class Unknown:
    """An operator that left control memory as it was, and how often, by reason."""

    name: str
    from_compute_memory: int
    not_computed: int

    @property
    def count(self) -> int:
        return self.from_compute_memory + self.not_computed


def load() -> None:
    """Replaces torch's CUDA kernels by ones that compute on control memory.

    Does nothing without a virtual GPU, or where torch is not for CUDA. Raises InstallationError
    where the library can't be built.
    """
    import torch

    if not _has_virtual_gpu() or torch.version.cuda is None or _Library.instance is not None:
        return
    from warpserve.cuda_shim.torch_ops import build

    described = build.Torch(Path(torch.__file__).parent, torch.__version__, torch.version.cuda)
    _Library.instance = _Library(build.library(described, Path(os.environ[_CACHE_VARIABLE])))
    atexit.register(_report)


def unknown() -> list[Unknown]:
    """The operators that this process could not compute so far, the most frequent first."""
    return [] if _Library.instance is None else _Library.instance.unknown()


@contextmanager
def control_memory() -> Iterator[None]:
    """What this thread's tensors are allocated in is control memory, whatever their size.

    For an engine's large tables. They are allocated apart from all others, because torch hands out
    parts of what it allocated before.
    """
    import torch

    gpu = ctypes.CDLL(None)
    pool = torch.cuda.MemPool()
    _pools.append(pool)
    gpu.ws_gpu_control_begin()
    try:
        with torch.cuda.use_mem_pool(pool):
            yield
    finally:
        gpu.ws_gpu_control_end()


_pools: list[object] = []
"""Torch frees the memory of a pool with it, so that they stay."""


class _Library:
    instance: _Library | None = None

    def __init__(self, path: Path) -> None:
        self._library = ctypes.CDLL(str(path))
        self._library.warpserve_torch_ops_load()

    def unknown(self) -> list[Unknown]:
        found: list[Unknown] = []

        def add(name: bytes, from_compute_memory: int, not_computed: int) -> None:
            found.append(Unknown(name.decode(), from_compute_memory, not_computed))

        self._library.warpserve_torch_ops_unknown(_EACH(add))
        return sorted(found, key=lambda entry: (-entry.count, entry.name))


def _has_virtual_gpu() -> bool:
    return "WARPSERVE_GPUS" in os.environ and hasattr(ctypes.CDLL(None), "ws_gpu_is_control")


def _report() -> None:
    found = unknown()
    if not found:
        return
    shown = found if os.environ.get(_REPORT_VARIABLE) == "all" else found[:_NAMED]
    names = ", ".join(f"{entry.name} ({_reasons(entry)})" for entry in shown)
    more = "" if len(shown) == len(found) else f" and {len(found) - len(shown)} more"
    print(
        f"warpserve: process {os.getpid()}: operators of torch left control memory as it was, and "
        f"what follows from it is unknown: {names}{more}",
        file=sys.stderr,
    )


def _reasons(entry: Unknown) -> str:
    parts = []
    if entry.from_compute_memory:
        parts.append(f"read compute memory {entry.from_compute_memory}x")
    if entry.not_computed:
        parts.append(f"can't be computed, called {entry.not_computed}x")
    return ", ".join(parts)

"""The C API of the virtual GPUs (cuda_shim/warpserve_gpu.h), for patches."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from functools import cache
from typing import Any

_NOT_READY = 600  # cudaErrorNotReady
_ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "ws_gpu_enqueue": (ctypes.c_void_p, ctypes.c_int64),
    "ws_gpu_event_instant": (ctypes.c_void_p, ctypes.POINTER(ctypes.c_int64)),
    "ws_gpu_is_control": (ctypes.c_void_p, ctypes.c_uint64),
    "cudaMalloc": (ctypes.POINTER(ctypes.c_void_p), ctypes.c_size_t),
    "cudaFree": (ctypes.c_void_p,),
}


def is_virtual() -> bool:
    """Whether this process sees virtual GPUs."""
    return "WARPSERVE_GPUS" in os.environ


def enqueue(stream: int, duration_ns: int, what: str = "ws_gpu_enqueue") -> None:
    """Work of a duration at the end of a stream (a cudaStream_t), as a kernel would be.

    Raises RuntimeError, naming ``what`` it was for, where CUDA refuses.
    """
    error = _library_function("ws_gpu_enqueue")(stream, duration_ns)
    if error != 0:
        raise RuntimeError(f"{what}: CUDA error {error}")


def instant_of(event: int) -> int | None:
    """When an event (a cudaEvent_t) is reached, on this process' CLOCK_MONOTONIC, in ns.

    None as long as that depends on others.
    """
    instant_ns = ctypes.c_int64()
    error = _library_function("ws_gpu_event_instant")(event, ctypes.byref(instant_ns))
    if error == _NOT_READY:
        return None
    if error != 0:
        raise RuntimeError(f"ws_gpu_event_instant: CUDA error {error}")
    return instant_ns.value + _monotonic_base_ns()


def is_control(address: int, size_bytes: int) -> bool:
    """Whether the CPU can read and write all of it: control memory, or the host's own."""
    return bool(_library_function("ws_gpu_is_control")(address, size_bytes))


def take_memory(size_bytes: int) -> int:
    """Memory of the current GPU that torch knows nothing of: its address.

    Raises RuntimeError where there is not so much.
    """
    address = ctypes.c_void_p()
    error = _library_function("cudaMalloc")(ctypes.byref(address), size_bytes)
    if error != 0 or address.value is None:
        raise RuntimeError(f"no {size_bytes:,} bytes of GPU memory are free: CUDA error {error}")
    return address.value


def free_memory(address: int) -> None:
    """Gives back what `take_memory` took."""
    error = _library_function("cudaFree")(address)
    if error != 0:
        raise RuntimeError(f"cudaFree: CUDA error {error}")


@cache
def _library_function(name: str) -> Callable[..., int]:
    function = ctypes.CDLL(None)[name]
    function.argtypes = _ARGUMENTS[name]
    return function


@cache
def _monotonic_base_ns() -> int:
    base_of = ctypes.CDLL(None).ws_monotonic_base_ns
    base_of.restype = ctypes.c_int64
    return int(base_of())

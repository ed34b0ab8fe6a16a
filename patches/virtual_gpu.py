"""The C API of the virtual GPUs (cuda_shim/warpserve_gpu.h), for patches."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from functools import cache


def is_virtual() -> bool:
    """Whether this process sees virtual GPUs."""
    return "WARPSERVE_GPUS" in os.environ


def enqueue(stream: int, duration_ns: int, what: str = "ws_gpu_enqueue") -> None:
    """Work of a duration at the end of a stream (a cudaStream_t), as a kernel would be.

    Raises RuntimeError, naming ``what`` it was for, where CUDA refuses.
    """
    error = _library_function()(stream, duration_ns)
    if error != 0:
        raise RuntimeError(f"{what}: CUDA error {error}")


@cache
def _library_function() -> Callable[[int, int], int]:
    function = ctypes.CDLL(None).ws_gpu_enqueue
    function.argtypes = (ctypes.c_void_p, ctypes.c_int64)
    return function

"""The C API of the virtual GPUs (cuda_shim/warpserve_gpu.h), for patches."""

from __future__ import annotations

import ctypes
import os


def is_virtual() -> bool:
    """Whether this process sees virtual GPUs."""
    return "WARPSERVE_GPUS" in os.environ


class Enqueue:
    """Work of a duration at the end of a stream, as a kernel would be."""

    def __init__(self) -> None:
        self._enqueue = ctypes.CDLL(None).ws_gpu_enqueue
        self._enqueue.argtypes = (ctypes.c_void_p, ctypes.c_int64)

    def __call__(self, stream: int, duration_ns: int) -> None:
        """``stream``: a cudaStream_t."""
        error = self._enqueue(stream, duration_ns)
        if error != 0:
            raise RuntimeError(f"ws_gpu_enqueue: CUDA error {error}")

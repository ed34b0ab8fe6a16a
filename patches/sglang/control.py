"""What the host writes to control memory without a copy of CUDA's, which would take time."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import torch

from warpserve.patches.virtual_gpu import is_control


def on_host(tensor: torch.Tensor) -> list[int]:
    """Numbers of a one-dimensional tensor of the GPU's, without waiting for it."""
    types = {torch.int32: ctypes.c_int32, torch.int64: ctypes.c_int64}
    size = tensor.numel()
    if size == 0:
        return []
    array = (types[tensor.dtype] * size).from_address(tensor.contiguous().data_ptr())
    numbers: list[int] = np.ctypeslib.as_array(array).tolist()
    return numbers


def on_device(tensor: torch.Tensor, device: Any) -> torch.Tensor:
    """A tensor of the GPU's with the contents of one of the host's. The step that makes them is
    what takes the time.
    """
    written = torch.empty(tensor.shape, dtype=tensor.dtype, device=device)
    bytes_ = tensor.numel() * tensor.element_size()
    if bytes_ == 0:
        return written
    if not is_control(written.data_ptr(), bytes_):
        raise RuntimeError("warpserve: SGLang's scheduler allocates outside of control memory")
    ctypes.memmove(written.data_ptr(), tensor.contiguous().data_ptr(), bytes_)
    return written

"""KV blocks in host memory, as large as the user says: never touched, and copied in PCIe's time."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from warpserve.patches.versions import require_attributes


def copy_without_touching(module: ModuleType) -> None:
    """``module``: vllm.v1.kv_offload.cpu.gpu_worker, or its earlier place.

    Raises RuntimeError where it lacks a symbol.
    """
    require_attributes(module, ("torch", "ops"))
    vars(module)["torch"] = _TorchWithLazyZeros(module.torch)
    if hasattr(module, "_select_swap_blocks_fn"):
        vars(module)["_select_swap_blocks_fn"] = lambda *_: module.ops.swap_blocks_batch


class _TorchWithLazyZeros:
    """Pinned memory is zero when it is new: writing zeros there would only make it resident."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch

    def __getattr__(self, name: str) -> Any:
        return getattr(self._torch, name)

    def zeros(self, *arguments: Any, pin_memory: bool = False, **options: Any) -> Any:
        make = self._torch.empty if pin_memory else self._torch.zeros
        return make(*arguments, pin_memory=pin_memory, **options)

"""KV blocks in host memory, as large as the user says: never touched, and copied in PCIe's time."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from warpserve.patches.stand_in import StandIn
from warpserve.patches.versions import require_attributes


def copy_without_touching(module: ModuleType) -> None:
    """``module``: vllm.v1.kv_offload.cpu.gpu_worker, or its earlier place.

    Raises RuntimeError where it lacks a symbol.
    """
    require_attributes(module, ("torch", "ops"))
    torch = module.torch

    def zeros(*arguments: Any, pin_memory: bool = False, **options: Any) -> Any:
        """Pinned memory is zero when it is new: writing zeros would only make it resident."""
        make = torch.empty if pin_memory else torch.zeros
        return make(*arguments, pin_memory=pin_memory, **options)

    vars(module)["torch"] = StandIn(torch, zeros=zeros)
    if hasattr(module, "_select_swap_blocks_fn"):
        vars(module)["_select_swap_blocks_fn"] = lambda *_: module.ops.swap_blocks_batch

"""Stages of a pipeline that send to each other."""

from __future__ import annotations

from types import ModuleType


def take_turns(module: ModuleType) -> None:
    """``module``: sglang.srt.managers.scheduler_pp_mixin.

    With one stage sending first while its neighbour receives, as newer versions have it everywhere
    and 0.5.14 on XPUs alone. On a GPU it relies on NCCL's buffers, in which a message waits for its
    receiver; messages of virtual GPUs need him at once.
    """
    if hasattr(module, "is_xpu"):
        vars(module)["is_xpu"] = lambda: True

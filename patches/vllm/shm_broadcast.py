"""vLLM's queue in shared memory, whose readers spin before they sleep."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from warpserve.patches.versions import require_attributes

_NEVER_SPIN_S = -1.0


def block_at_once(module: ModuleType) -> None:
    """``module``: vllm.distributed.device_communicators.shm_broadcast.

    A reader that waits sleeps on its notification socket at once: a thread that spins keeps virtual
    time from moving. Raises RuntimeError where the module lacks a symbol.
    """
    require_attributes(module, ("SpinCondition",))
    condition_class = module.SpinCondition
    make = condition_class.__init__

    def make_sleeper(self: Any, is_reader: bool, *arguments: Any, **options: Any) -> None:
        make(self, is_reader, *arguments, **options)
        require_attributes(self, ("busy_loop_s",))
        if is_reader:
            self.busy_loop_s = _NEVER_SPIN_S

    condition_class.__init__ = make_sleeper

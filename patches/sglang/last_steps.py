"""The last step of a pipeline's stage: when it ends is not known while the stages before work."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from warpserve.patches.versions import require_attributes


def log_when_idle(module: ModuleType) -> None:
    """``module``: sglang.srt.managers.scheduler. Raises RuntimeError where it lacks a symbol."""
    require_attributes(module, ("Scheduler",))
    scheduler_class = module.Scheduler
    require_attributes(scheduler_class, ("maybe_sleep_on_idle",))
    maybe_sleep = scheduler_class.maybe_sleep_on_idle

    def log_and_maybe_sleep(self: Any) -> None:
        self.tp_worker.virtual_steps.log_known()
        maybe_sleep(self)

    scheduler_class.maybe_sleep_on_idle = log_and_maybe_sleep

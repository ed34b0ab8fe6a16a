"""A scheduler without a batch, for which something is still on its way: a copy, a page from
storage, another engine's KV. SGLang polls for it in a loop, which would keep virtual time from
moving.
"""

from __future__ import annotations

import contextlib
import os
from functools import cache
from types import ModuleType
from typing import Any

from warpserve.patches.sglang.idle import IdleSleeper
from warpserve.patches.versions import require_attributes

_PERIOD_MS = 1
"""How long it sleeps at most, in virtual time: some things come without a word, such as the end of
a copy to the host, for which no request waits.
"""


class Progress:
    """Other threads of this process say that there is something to look at."""

    def __init__(self) -> None:
        self._event = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)

    def fileno(self) -> int:
        return self._event

    def signal(self) -> None:
        os.eventfd_write(self._event, 1)

    def forget(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._event)


@cache
def progress_of_process() -> Progress:
    return Progress()


def sleep_when_pending(module: ModuleType) -> None:
    """``module``: sglang.srt.managers.scheduler. Raises RuntimeError where it lacks a symbol."""
    require_attributes(module, ("Scheduler",))
    scheduler_class = module.Scheduler
    require_attributes(scheduler_class, ("on_idle", "is_fully_idle"))
    on_idle = scheduler_class.on_idle

    def on_idle_or_pending(self: Any) -> None:
        on_idle(self)
        # Who has no sleeper of its own waits for one who has, at the next broadcast.
        if isinstance(self.idle_sleeper, IdleSleeper) and not self.is_fully_idle():
            progress = progress_of_process()
            self.idle_sleeper.sleep_until(progress, _PERIOD_MS)
            progress.forget()

    scheduler_class.on_idle = on_idle_or_pending


def tell_of_storage(module: ModuleType) -> None:
    """``module``: sglang.srt.managers.cache_controller, whose threads put what they have done into
    queues. Raises RuntimeError where it lacks a symbol.
    """
    require_attributes(module, ("Queue",))

    class TellingQueue(module.Queue):  # type: ignore[misc, name-defined]
        def put(self, *arguments: Any, **options: Any) -> None:
            super().put(*arguments, **options)
            progress_of_process().signal()

    vars(module)["Queue"] = TellingQueue


def tell_of_transfers(module: ModuleType) -> None:
    """``module``: sglang.srt.disaggregation.common.conn, whose threads note how far each request's
    KV is. Raises RuntimeError where it lacks a symbol.
    """
    require_attributes(module, ("CommonKVManager",))
    manager_class = module.CommonKVManager
    require_attributes(manager_class, ("update_status",))
    update_status = manager_class.update_status

    def update_and_tell(self: Any, *arguments: Any, **options: Any) -> Any:
        result = update_status(self, *arguments, **options)
        progress_of_process().signal()
        return result

    manager_class.update_status = update_and_tell

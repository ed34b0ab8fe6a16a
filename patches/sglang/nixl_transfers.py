"""Who waits for NIXL's transfers sleeps; in SGLang they look again and again."""

from __future__ import annotations

from types import ModuleType

from warpserve.patches.nixl.mailbox import when_notified
from warpserve.patches.nixl.transfer import CHANGES
from warpserve.patches.sglang.pending import progress_of_process
from warpserve.patches.stand_in import StandIn
from warpserve.patches.versions import require_attributes


def sleep_until_changed(module: ModuleType) -> None:
    """``module``: sglang.srt.disaggregation.nixl.conn. Raises RuntimeError where it lacks a
    symbol.
    """
    require_attributes(module, ("time",))
    sleep = module.time.sleep

    def sleep_or_wait(seconds: float) -> None:
        if seconds == 0:
            CHANGES.wait()
        else:
            sleep(seconds)

    when_notified(progress_of_process().signal)
    vars(module)["time"] = StandIn(module.time, sleep=sleep_or_wait)

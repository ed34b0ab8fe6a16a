"""An event loop whose timers fire to the nanosecond; asyncio's wait for whole milliseconds."""

from __future__ import annotations

import asyncio
import selectors
import time
from typing import Any

from warpserve.bench.client.kernel import wait_until


class ExactLoop(asyncio.SelectorEventLoop):
    """Its time is CLOCK_MONOTONIC."""

    def __init__(self) -> None:
        super().__init__(_ExactSelector())

    def time(self) -> float:
        return time.monotonic_ns() / 1e9


class _ExactSelector(selectors.EpollSelector):
    def select(self, timeout: float | None = None) -> Any:
        if timeout is not None and timeout > 0:
            wait_until(time.monotonic_ns() + round(timeout * 1e9), [self.fileno()])
            timeout = 0
        return super().select(timeout)

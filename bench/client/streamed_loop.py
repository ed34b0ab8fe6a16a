"""An event loop whose timers fire at the instants at which a streaming client's would.

asyncio waits on epoll for whole milliseconds, counted from its last wake-up. A client that streams
wakes up whenever a step gives it a token, so the end of the last step decides at which fraction of
a millisecond the next request is sent. This loop keeps that count without being woken up: it sleeps
until the timer is due, then looks into the step log for what a streaming client's count would be,
and for the last part of a millisecond watches that log.
"""

from __future__ import annotations

import asyncio
import math
import selectors
import time
from collections.abc import Callable
from typing import Any

from warpserve.bench.client.kernel import Growth, wait_until

_RESOLUTION_S = time.get_clock_info("monotonic").resolution
_SETTLE_NS = 1
"""A jump, however short, returns when all that happens at this instant has happened."""


class StreamedLoop(asyncio.SelectorEventLoop):
    """``new_ends_ns``: the ends of the steps that gave tokens since the last call.

    Its time is that of its last wake-up, which in `exact` is the session's.
    """

    def __init__(self, growth: Growth, new_ends_ns: Callable[[], list[int]]) -> None:
        self._waits = _StreamedSelector(growth, new_ends_ns, self._next_timer_s)
        super().__init__(self._waits)

    def time(self) -> float:
        return self._waits.instant_ns / 1e9

    def realtime(self) -> float:
        """time.time() of the last wake-up."""
        return (time.time_ns() - (time.monotonic_ns() - self._waits.instant_ns)) / 1e9

    def _next_timer_s(self) -> float:
        timers: list[asyncio.TimerHandle] = vars(self)["_scheduled"]  # a heap
        return timers[0].when()


class _StreamedSelector(selectors.EpollSelector):
    def __init__(
        self,
        growth: Growth,
        new_ends_ns: Callable[[], list[int]],
        next_timer_s: Callable[[], float],
    ) -> None:
        super().__init__()
        self.instant_ns = time.monotonic_ns()
        self._growth = growth
        self._new_ends_ns = new_ends_ns
        self._next_timer_s = next_timer_s
        self._ends_ns: set[int] = set()  # still to come: a step is logged when it begins

    def select(self, timeout: float | None = None) -> Any:
        if timeout is not None and timeout > 0:
            self._wait_for_timer(self._next_timer_s())
            timeout = 0
        events = super().select(timeout)
        now_ns = time.monotonic_ns()
        if now_ns > self.instant_ns + _SETTLE_NS:
            self.instant_ns = now_ns
        return events

    def _wait_for_timer(self, due_s: float) -> None:
        """Returns at an event, or when a streaming client would see that it is ``due_s``."""
        if wait_until(int(due_s * 1e9), [self.fileno()]):
            return
        woken_ns = self.instant_ns
        while True:
            self._growth.clear()
            self._ends_ns.update(self._new_ends_ns())
            woken_ns = self._last_woken_ns(woken_ns)
            if woken_ns / 1e9 + _RESOLUTION_S > due_s:
                break
            times_out_ns = woken_ns + epoll_wait_ns(due_s - woken_ns / 1e9)
            next_ns = min([times_out_ns, *self._ends_ns])
            ready = wait_until(next_ns, [self.fileno(), self._growth.fd])
            if self.fileno() in ready or (not ready and next_ns == times_out_ns):
                return
        # Woken by a step's tokens, which come when the engine is through with the step.
        wait_until(time.monotonic_ns() + _SETTLE_NS)
        self.instant_ns = woken_ns

    def _last_woken_ns(self, woken_ns: int) -> int:
        """``woken_ns``, or the end of a step since then."""
        now_ns = time.monotonic_ns()
        past_ns = {end_ns for end_ns in self._ends_ns if end_ns <= now_ns}
        self._ends_ns -= past_ns
        return max([woken_ns, *past_ns])


def epoll_wait_ns(timeout_s: float) -> int:
    """How long asyncio waits where it wants to wait for ``timeout_s``.

    As selectors.EpollSelector.select and then select.epoll.poll round it.
    """
    rounded_s = math.ceil(max(0.0, timeout_s) * 1e3) * 1e-3
    return -(-math.ceil(rounded_s * 1e9) // 10**6) * 10**6

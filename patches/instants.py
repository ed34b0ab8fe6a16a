"""The session's instants, for patches: what happens side by side at one of them.

A session's threads race at an instant of virtual time: who of them is first depends on the host.
What a patched engine decides must not.
"""

from __future__ import annotations

import ctypes
import queue
from collections import deque
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, TypeVar

_EXACT = 1
"""WS_EXACT of warpserve.h."""

Item = TypeVar("Item")
Order = Callable[[Iterable[Item]], list[Item]]


def now_ns() -> int:
    """Of virtual time. Unlike a read of a clock, no sign of a thread that polls."""
    return int(_library().ws_now_ns())


def settle() -> None:
    """Returns when nothing more happens at this instant.

    At once where host time passes, and where the session is over.
    """
    _library().ws_settle()


def is_exact() -> bool:
    """Whether time stands still while somebody works."""
    return bool(_library().ws_mode() == _EXACT)


class SettledQueue(queue.Queue[Item]):
    """A queue for one reader that sees what came before the present instant, and nothing else.

    Whether an item of the same instant came before the reader looked is up to the host. A reader
    that would wait sees the items of its instant once nothing more happens at it.
    """

    def __init__(
        self,
        order: Order[Item] = list,
        *,
        settle: Callable[[], None] = settle,
        clock_ns: Callable[[], int] = now_ns,
    ) -> None:
        """``order``: of items of one instant."""
        super().__init__()
        self._order = order
        self._settle = settle
        self._clock_ns = clock_ns
        self._fresh: deque[Item] = deque()  # all of the instant _fresh_ns
        self._fresh_ns = -1

    def get(self, block: bool = True, timeout: float | None = None) -> Item:
        """As queue.Queue's."""
        if block and timeout is None:
            self._await_item()
        return super().get(block, timeout)

    def has_any(self) -> bool:
        """Whether there is an item, be it one of the present instant."""
        with self.mutex:
            return bool(self._qsize() or self._fresh)

    def show_instant(self) -> None:
        """For a reader that has waited: shows the items of this instant, once all are there."""
        self._settle()
        with self.mutex:
            self._show_fresh()

    def _await_item(self) -> None:
        with self.mutex:
            while not self._qsize() and not self._fresh:
                self.not_empty.wait()
            if self.queue:
                return
        self.show_instant()

    def _qsize(self) -> int:
        if self._fresh and self._fresh_ns < self._clock_ns():
            self._show_fresh()
        return len(self.queue)

    def _put(self, item: Item) -> None:
        now_ns = self._clock_ns()
        if self._fresh_ns < now_ns:
            self._show_fresh()
            self._fresh_ns = now_ns
        self._fresh.append(item)

    def _show_fresh(self) -> None:
        self.queue.extend(self._order(self._fresh))
        self._fresh.clear()


@cache
def _library() -> Any:
    library = ctypes.CDLL(None)
    library.ws_now_ns.restype = ctypes.c_int64
    return library

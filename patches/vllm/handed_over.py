"""A queue between two threads of one Python process whose reader is not kept waiting."""

from __future__ import annotations

import queue
import threading
from typing import Any


class HandedOver(queue.Queue[Any]):
    """`put` returns when the reader is done with what was put, and is back for more.

    The two share one interpreter. When the writer gives it away, for a system call, that is over
    before the reader has woken up: so the reader would run when the writer has nothing more to do,
    and the other processes, for which its items are, would wait for both.
    """

    def __init__(self) -> None:
        super().__init__()
        self._reader_is_back = threading.Condition(self.mutex)
        self._has_reader = self._reader_waits = False

    def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
        """As queue.Queue's. Waits for nobody until a reader has come for the first time."""
        super().put(item, block, timeout)
        with self.mutex:
            while self._has_reader and not self._reader_waits:
                self._reader_is_back.wait()

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        """As queue.Queue's. Who asks without a timeout is the reader."""
        if block and timeout is None:
            self._await_item()
        return super().get(block, timeout)

    def _await_item(self) -> None:
        with self.mutex:
            self._has_reader = True
            self._reader_waits = not self._qsize()
            self._reader_is_back.notify_all()

    def _put(self, item: Any) -> None:
        self._reader_waits = False
        super()._put(item)

    def let_go(self) -> None:
        """There will be no reader any more."""
        with self.mutex:
            self._has_reader = False
            self._reader_is_back.notify_all()

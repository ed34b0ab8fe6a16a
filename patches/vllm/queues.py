"""Queues of vLLM's engine core in whose place others are put."""

from __future__ import annotations

import queue
from collections.abc import Callable
from typing import Any


class ReplacedQueue:
    """An attribute of an engine core: whichever new queue.Queue is put there is another."""

    def __init__(self, name: str, make: Callable[[Any], queue.Queue[Any]]) -> None:
        """``make``: the other, of an engine core."""
        self._name = name
        self._make = make

    def __get__(self, engine_core: Any, _owner: type) -> Any:
        return self if engine_core is None else vars(engine_core)[self._name]

    def __set__(self, engine_core: Any, new_queue: Any) -> None:
        if type(new_queue) is not queue.Queue or not new_queue.empty():
            raise RuntimeError(
                f"vLLM's {self._name} is not the new queue.Queue that warpserve knows"
            )
        vars(engine_core)[self._name] = self._make(engine_core)

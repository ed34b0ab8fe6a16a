"""API servers that share a socket, since vLLM 0.33: no two of them look at one instant.

A connection wakes all of them. One that has as few connections as any other, by memory that they
share, accepts it; others leave it to that one for a millisecond. Which of them looks first, while
nobody has accepted anything yet, is up to the host: so each looks in nanoseconds of its own.
"""

from __future__ import annotations

import time
from types import ModuleType
from typing import Any

from warpserve.patches.instants import is_exact
from warpserve.patches.versions import require_attributes

_NS = 1e-9


def accept_in_turns(module: ModuleType) -> None:
    """``module``: vllm.entrypoints.launchers.launcher. Raises RuntimeError where it lacks a symbol.

    A server publishes its load, looks at all loads, and accepts, without waiting in between.
    """
    require_attributes(module, ("NoSignalServer",))
    server_class = module.NoSignalServer
    require_attributes(server_class, ("_publish_load", "_least_loaded"))
    for name in ("_publish_load", "_least_loaded"):
        setattr(server_class, name, _in_turn(getattr(server_class, name)))


def _in_turn(look: Any) -> Any:
    def _look(self: Any) -> Any:
        if is_exact():
            loads, index = self.peer_loads
            _await_turn(index, len(loads))
        return look(self)

    return _look


def _await_turn(index: int, turns: int) -> None:
    """Each in as many nanoseconds is one of them."""
    wait_ns = (index - time.monotonic_ns()) % turns
    if wait_ns:
        time.sleep(wait_ns * _NS)

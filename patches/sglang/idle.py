"""A scheduler without work polls its sockets in a loop, which keeps virtual time from moving."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from warpserve.patches.versions import require_attributes


def sleep_when_idle(module: ModuleType) -> None:
    """``module``: sglang.srt.managers.scheduler. Raises RuntimeError where it lacks a symbol."""
    require_attributes(module, ("Scheduler",))
    scheduler_class = module.Scheduler
    require_attributes(scheduler_class, ("init_idle_sleeper", "maybe_sleep_on_idle", "on_idle"))

    def init_idle_sleeper(self: Any) -> None:
        inbox = self.ipc_channels.recv_from_tokenizer
        if inbox is None:
            self.idle_sleeper = None
        else:
            self.idle_sleeper = IdleSleeper(inbox, self.ipc_channels.recv_from_rpc)

    scheduler_class.init_idle_sleeper = init_idle_sleeper


class IdleSleeper:
    """In place of SGLang's own (--sleep-on-idle), which wakes up once a second."""

    def __init__(self, inbox: Any, rpc: Any) -> None:
        """``rpc``: a zmq.Socket, where commands come from that are no requests."""
        import zmq

        self._inbox = inbox
        self._poller = zmq.Poller()
        self._poller.register(inbox.fileno(), zmq.POLLIN)
        if rpc is not None:
            self._poller.register(rpc, zmq.POLLIN)

    def maybe_sleep(self) -> None:
        """Until something comes; returns when all of its instant is there."""
        if not self._inbox.has_any():
            self._poller.poll()
        self._inbox.show_instant()

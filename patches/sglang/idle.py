"""A scheduler without work polls its sockets in a loop, which keeps virtual time from moving."""

from __future__ import annotations

import contextlib
import socket
import time
from pathlib import Path
from types import ModuleType
from typing import Any

from warpserve.patches.session import session_folder
from warpserve.patches.sglang.resolved import parallel_of
from warpserve.patches.versions import require_attributes

_LOOK_MS = 1_000  # of virtual time, as SGLang's own


def sleep_when_idle(module: ModuleType) -> None:
    """``module``: sglang.srt.managers.scheduler. Raises RuntimeError where it lacks a symbol."""
    require_attributes(module, ("Scheduler",))
    scheduler_class = module.Scheduler
    require_attributes(scheduler_class, ("init_idle_sleeper", "maybe_sleep_on_idle", "on_idle"))

    maybe_sleep = scheduler_class.maybe_sleep_on_idle

    def maybe_sleep_on_idle(self: Any) -> None:
        """Asked to end, it looks for that when it begins once more; some loops never do."""
        if self.gracefully_exit:
            time.sleep(_LOOK_MS / 1e3)
        else:
            maybe_sleep(self)

    def init_idle_sleeper(self: Any) -> None:
        inbox = self.ipc_channels.recv_from_tokenizer
        parallel = parallel_of(self)
        if inbox is None:
            self.idle_sleeper = None
        elif not parallel.attn_dp_enabled:
            self.idle_sleeper = IdleSleeper(inbox, self.ipc_channels.recv_from_rpc)
        elif parallel.tp_rank == 0:
            wake = Wake(self.nccl_port).listen()
            self.idle_sleeper = IdleSleeper(inbox, self.ipc_channels.recv_from_rpc, wake)
        else:
            self.idle_sleeper = Follower(inbox, Wake(self.nccl_port))

    scheduler_class.init_idle_sleeper = init_idle_sleeper
    scheduler_class.maybe_sleep_on_idle = maybe_sleep_on_idle


class IdleSleeper:
    """In place of SGLang's own (--sleep-on-idle), which wakes up once a second."""

    def __init__(self, inbox: Any, rpc: Any, wake: socket.socket | None = None) -> None:
        """``rpc``: a zmq.Socket, where commands come from that are no requests; ``wake``: where
        other ranks tell of theirs.
        """
        import zmq

        self._inbox = inbox
        self._wake = wake
        # Others wait for this rank also when what they wait for is no request.
        self._limit_ms = None if wake is None else _LOOK_MS
        self._readable = zmq.POLLIN
        self._poller = zmq.Poller()
        self._poller.register(inbox.fileno(), zmq.POLLIN)
        for source in (rpc, wake):
            if source is not None:
                self._poller.register(source, zmq.POLLIN)

    def maybe_sleep(self) -> None:
        """Until something comes; returns when all of its instant is there."""
        if not self._inbox.has_any():
            self._poller.poll(self._limit_ms)
        if self._wake is not None:
            with contextlib.suppress(BlockingIOError):
                while True:
                    self._wake.recv(1)
        self._inbox.show_instant()

    def sleep_until(self, progress: Any, limit_ms: int) -> None:
        """Until something comes, or ``progress``, a file descriptor's owner, is readable.

        Returns when all of its instant is there.
        """
        if not self._inbox.has_any():
            self._poller.register(progress.fileno(), self._readable)
            self._poller.poll(limit_ms)
            self._poller.unregister(progress.fileno())
        self._inbox.show_instant()


class Follower:
    """Of a data-parallel rank that takes its steps with the first one: that one sleeps for all, and
    the others wait for what it broadcasts.
    """

    def __init__(self, inbox: Any, wake: Wake) -> None:
        self._inbox = inbox
        self._wake = wake
        inbox.on_arrival = wake.send

    def maybe_sleep(self) -> None:
        if self._inbox.has_any():
            self._wake.send()
            self._inbox.show_instant()


class Wake:
    """How ranks of one engine wake its first."""

    def __init__(self, engine: int) -> None:
        """``engine``: a number that all of its ranks know, and no other engine has."""
        self._path = str(session_folder() / f"wake-{engine}")
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setblocking(False)

    def listen(self) -> socket.socket:
        Path(self._path).unlink(missing_ok=True)  # of a server before, whose ranks were killed
        self._socket.bind(self._path)
        return self._socket

    def send(self) -> None:
        """Nothing where it has not been heard yet, or where the first rank is not there yet."""
        with contextlib.suppress(BlockingIOError, FileNotFoundError, ConnectionRefusedError):
            self._socket.sendto(b"\0", self._path)

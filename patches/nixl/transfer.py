"""Transfers over the link of the process that begins them."""

from __future__ import annotations

import ctypes
import logging
import threading
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from numpy.typing import NDArray

from warpserve.patches.network import Link
from warpserve.patches.nixl.mailbox import Mailbox

_LOG = logging.getLogger("warpserve.nixl")


class Telemetry(NamedTuple):
    """Of a transfer that is done. Durations in us."""

    postDuration: int  # noqa: N815
    xferDuration: int  # noqa: N815
    totalBytes: int  # noqa: N815
    descCount: int  # noqa: N815


class HostCopy(NamedTuple):
    """Bytes that really have to arrive, from an address to one of the other agent's."""

    source: int
    target: int
    bytes_: int


class Transfer:
    """Its ``state`` is INIT, PROC, and DONE or ERR."""

    def __init__(
        self,
        remote: str,
        sizes: NDArray[Any],
        notification: bytes,
        host_copies: Sequence[HostCopy] = (),
    ) -> None:
        self._remote = remote
        self._bytes = int(sizes.sum())
        self._blocks = len(sizes)
        self._notification = notification
        self._host_copies = host_copies
        self._begin_ns = 0
        self._end_ns = 0
        self.state = "INIT"

    def begin(self, link: Link, mailbox: Mailbox) -> None:
        self._begin_ns = time.monotonic_ns()
        self.state = "PROC"
        threading.Thread(target=self._carry, args=(link, mailbox), daemon=True).start()

    def _carry(self, link: Link, mailbox: Mailbox) -> None:
        link.send(self._bytes)
        self._end_ns = time.monotonic_ns()
        _LOG.info("%d blocks, %d bytes, with %s", self._blocks, self._bytes, self._remote)
        try:
            for copy in self._host_copies:
                data = ctypes.string_at(copy.source, copy.bytes_)
                mailbox.write(self._remote, copy.target, data)
            if self._notification:
                mailbox.notify(self._remote, self._notification)
        except OSError as error:
            _LOG.warning("a transfer failed: its agent %s is gone (%s)", self._remote, error)
            CHANGES.note(self, "ERR")
        else:
            CHANGES.note(self, "DONE")

    @property
    def telemetry(self) -> Telemetry:
        duration_us = (self._end_ns - self._begin_ns) // 1000
        return Telemetry(0, duration_us, self._bytes, self._blocks)


class Changes:
    """Lets a thread that has looked at states sleep until one of them is another."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._count = 0
        self._seen = threading.local()

    def note(self, transfer: Transfer, state: str) -> None:
        with self._changed:
            transfer.state = state
            self._count += 1
            self._changed.notify_all()

    def state_of(self, transfer: Transfer) -> str:
        with self._changed:
            vars(self._seen).setdefault("count", self._count)
            return transfer.state

    def wait(self) -> None:
        """Returns at once if one has changed since this thread's first look after its last wait."""
        with self._changed:
            seen = vars(self._seen).pop("count", self._count)
            self._changed.wait_for(lambda: self._count != seen)


CHANGES = Changes()
"""Of all transfers of this process."""

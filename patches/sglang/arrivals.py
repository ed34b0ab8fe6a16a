"""What a scheduler takes into a batch: what arrived before the batch's instant.

A batch ends, the scheduler makes the next one, and at the same instant of virtual time a request
comes in. Whether it is in that batch must not be up to the host. It is not in it: on a real GPU the
scheduler is there first, too. A scheduler without work waits until nothing more happens at the
instant, so that requests of one instant share a batch.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import threading
from collections.abc import Callable, Iterable
from dataclasses import replace
from types import ModuleType
from typing import Any

from warpserve.patches.arrival_order import LAST, Place, place_of
from warpserve.patches.instants import SettledQueue
from warpserve.patches.sglang.channels import change_channels


def settle_arrivals(module: ModuleType) -> None:
    """``module``: sglang.srt.managers.scheduler_components.ipc_channels.

    Raises RuntimeError where it lacks a symbol.
    """

    def settled(channels: Any) -> Any:
        socket = channels.recv_from_tokenizer
        if socket is None:
            return channels
        return replace(channels, recv_from_tokenizer=Inbox(socket, module.zmq))

    change_channels(module, settled)


class Inbox:
    """In place of the socket that a scheduler receives requests from, for one thread to read."""

    def __init__(self, socket: Any, zmq: Any) -> None:
        """``socket``: a zmq.Socket."""
        self._socket = socket
        self._zmq = zmq
        self._items: SettledQueue[bytes] = SettledQueue(in_one_order)
        self._arrived = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self.on_arrival: Callable[[], None] = lambda: None
        """Called in another thread."""
        self._end, self._ended = os.pipe()
        self._thread = threading.Thread(target=self._receive, name="warpserve-inbox", daemon=True)
        self._thread.start()

    def fileno(self) -> int:
        """Readable when something has arrived since `wait` returned last."""
        return self._arrived

    def recv(self, flags: int = 0, **_: Any) -> bytes:
        """As a zmq.Socket's."""
        try:
            return self._items.get(block=not flags & self._zmq.NOBLOCK)
        except queue.Empty:
            raise self._zmq.Again from None

    def recv_pyobj(self, flags: int = 0) -> Any:
        """As a zmq.Socket's."""
        return pickle.loads(self.recv(flags))

    def has_any(self) -> bool:
        return self._items.has_any()

    def show_instant(self) -> None:
        """Shows what arrives at this instant, too, once all of it is there."""
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._arrived)
        self._items.show_instant()

    def close(self) -> None:
        """The socket, too: its context would wait for it."""
        os.close(self._ended)
        self._thread.join()

    def _receive(self) -> None:
        poller = self._zmq.Poller()
        poller.register(self._socket, self._zmq.POLLIN)
        poller.register(self._end, self._zmq.POLLIN)
        while self._end not in dict(poller.poll()):
            self._items.put(self._socket.recv())
            os.eventfd_write(self._arrived, 1)
            self.on_arrival()
        self._socket.close(linger=0)


def in_one_order(messages: Iterable[bytes]) -> list[bytes]:
    """Messages of one instant: the requests in the order of `place_of`, then what aborts single
    ones. What concerns all that came before it keeps its place: a client that sends such a thing,
    and then requests, means them in that order.
    """
    arrived = list(messages)
    if len(arrived) < 2:
        return arrived
    ordered: list[bytes] = []
    alike: list[tuple[Place, bytes]] = []
    for message in arrived:
        place = _place(_decoded(message))
        if place is None:
            ordered += _sorted(alike)
            ordered.append(message)
            alike = []
        else:
            alike.append((place, message))
    return ordered + _sorted(alike)


def _sorted(placed: list[tuple[Place, bytes]]) -> list[bytes]:
    return [message for _, message in sorted(placed, key=lambda each: each[0])]


def _decoded(message: bytes) -> Any:
    from sglang.srt.managers import io_struct

    if getattr(io_struct, "_USE_PICKLE_IPC", True):
        return pickle.loads(message)
    return io_struct.msgpack_decode(message)


def _place(received: Any) -> Place | None:
    """None for what concerns all requests."""
    request = received.batch[0] if getattr(received, "batch", None) else received
    prompt = getattr(request, "input_ids", None)
    if prompt is not None and isinstance(request.rid, str):
        return place_of(request.rid, prompt)
    return None if _concerns_all(received) else LAST


def _concerns_all(received: Any) -> bool:
    """What a user asks for that is no request: to flush the cache, to pause, to abort all."""
    name = type(received).__name__
    is_asked = name.endswith("ReqInput") and "Tokenized" not in name and not name.startswith("Get")
    return is_asked or getattr(received, "abort_all", False)

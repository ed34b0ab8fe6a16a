"""What agents of one session tell each other: notifications, and bytes for the host's memory.

Each message is answered as soon as it has been put where it belongs, and only then is the sender
through with it: so nothing that it tells by other roads comes first.
"""

from __future__ import annotations

import contextlib
import ctypes
import threading
from collections import defaultdict
from collections.abc import Callable
from multiprocessing.connection import Client, Listener

from warpserve.patches.session import session_folder

_LISTENERS: list[Callable[[], None]] = []


def when_notified(listener: Callable[[], None]) -> None:
    """Called in a thread of its own, whenever an agent of this process has got a notification."""
    _LISTENERS.append(listener)


class Mailbox:
    """Of one agent, whose name no other has."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._notifications: dict[str, list[bytes]] = defaultdict(list)
        self._listener = Listener(_address(name), "AF_UNIX", backlog=128)
        threading.Thread(target=self._receive, name="nixl-mailbox", daemon=True).start()

    def notify(self, name: str, message: bytes) -> None:
        """Raises OSError where no agent has that ``name`` any longer."""
        _deliver(name, (self._name, message))

    def write(self, name: str, address: int, data: bytes) -> None:
        """Into the memory of another agent's process. Raises OSError likewise."""
        _deliver(name, (address, data))

    def take_notifications(self) -> dict[str, list[bytes]]:
        """What has come since the last time, by sender."""
        with self._lock:
            taken, self._notifications = self._notifications, defaultdict(list)
        return dict(taken)

    def _receive(self) -> None:
        while True:
            # A sender that ends in the middle takes its message with it.
            with self._listener.accept() as connection, contextlib.suppress(EOFError, OSError):
                self._put(*connection.recv())
                connection.send(None)

    def _put(self, place: str | int, data: bytes) -> None:
        if isinstance(place, int):
            ctypes.memmove(place, data, len(data))
            return
        with self._lock:
            self._notifications[place].append(data)
        for listener in _LISTENERS:
            listener()


def _address(name: str) -> str:
    return str(session_folder() / f"nixl-{name}")


def _deliver(name: str, message: tuple[str | int, bytes]) -> None:
    try:
        with Client(_address(name), "AF_UNIX") as connection:
            connection.send(message)
            connection.recv()
    except EOFError:
        raise ConnectionResetError(f"the agent {name} has ended") from None

"""Notifications between agents of one host: datagrams to a socket without a file.

A sent one is at once in the receiver's socket, so that in `exact` time never overtakes it.
"""

from __future__ import annotations

import socket
import threading
from collections import defaultdict

_ADDRESS = "\0warpserve-nixl-{}"
_LONGEST_BYTES = 1 << 18  # more than a socket takes at once, by default
_SEPARATOR = b"\0"


class Mailbox:
    """Of one agent, whose name no other has."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(_ADDRESS.format(name))
        self._lock = threading.Lock()
        self._received: dict[str, list[bytes]] = defaultdict(list)
        # Few datagrams fit in a socket, and who sends one more would have to wait.
        threading.Thread(target=self._receive, name="nixl-notifications", daemon=True).start()

    def send(self, name: str, message: bytes) -> None:
        """Raises OSError where no agent has that ``name`` any longer."""
        self._socket.sendto(self._name.encode() + _SEPARATOR + message, _ADDRESS.format(name))

    def take(self) -> dict[str, list[bytes]]:
        """What has come since the last time, by sender."""
        with self._lock:
            received, self._received = self._received, defaultdict(list)
        return dict(received)

    def _receive(self) -> None:
        while True:
            sender, _, message = self._socket.recv(_LONGEST_BYTES).partition(_SEPARATOR)
            with self._lock:
                self._received[sender.decode()].append(message)

"""The launcher's side of a Timekeeper's control socket (timekeeper/shared/contract.hpp)."""

from __future__ import annotations

import array
import enum
import os
import socket
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from warpserve.errors import ProtocolMismatch, SessionEnded, SessionError, TokenRefused

MAGIC = 0x4C545257
CONTRACT_VERSION = 3
_LAYOUT = struct.Struct("<IIIIi32s160s")
_MAX_DESCRIPTORS = 4


class MessageType(enum.IntEnum):
    """Types of control messages."""

    HELLO = 1
    WELCOME = 2
    REFUSED = 3
    WAKE_FD = 4
    DONE = 5
    SPAWN = 6
    SPAWNED = 7
    EXITED = 8
    STATUS = 9
    STATUS_REPLY = 10
    END = 11
    ENDING = 12


@dataclass(frozen=True)
class Exited:
    """A spawned process has ended; `exit_code` is negative for a signal."""

    pid: int
    exit_code: int


@dataclass(frozen=True)
class _Message:
    type: MessageType
    value: int
    status: int
    text: str
    descriptors: list[int]


class ControlConnection:
    """One connection to the Timekeeper of the session in `folder`.

    The session ends when a connection that has spawned members is closed.
    """

    def __init__(self, folder: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            self._token = (folder / "token").read_bytes()
            self._socket.connect(str(folder / "control.sock"))
        except OSError as error:
            self._socket.close()
            raise SessionEnded(f"no Timekeeper answers at {folder}: {error}") from error
        self._exited: list[Exited] = []

    def close(self) -> None:
        self._socket.close()

    def fileno(self) -> int:
        return self._socket.fileno()

    def spawn(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: Path,
        stdio: tuple[int, int, int],
        ends_session: bool = False,
    ) -> int:
        """Has the Timekeeper start `command`; returns its pid.

        `ends_session`: the session ends at the virtual time at which the command does.
        """
        memfd = os.memfd_create("warpserve-spawn", os.MFD_CLOEXEC)
        try:
            os.write(memfd, _spawn_request(command, env, cwd))
            self._send(MessageType.SPAWN, [memfd, *stdio], value=int(ends_session))
        finally:
            os.close(memfd)
        return self._expect(MessageType.SPAWNED).value

    def status_json(self) -> str:
        """The state of the session."""
        self._send(MessageType.STATUS)
        reply = self._expect(MessageType.STATUS_REPLY)
        with os.fdopen(reply.descriptors[0], "rb") as file:
            file.seek(0)
            return file.read().decode()

    def tell_ending(self) -> None:
        """From now on, the launcher ends members itself: their deaths are no news."""
        self._send(MessageType.ENDING)
        self._expect(MessageType.DONE)

    def end(self) -> None:
        """Asks the Timekeeper to end the session and all that it has started."""
        self._send(MessageType.END)

    def wait_exited(self, timeout_s: float | None = None) -> Exited | None:
        """The next end of a spawned process; None where the time-out comes first."""
        if self._exited:
            return self._exited.pop(0)
        self._socket.settimeout(timeout_s)
        try:
            message = self._receive()
        except TimeoutError:
            return None
        finally:
            self._socket.settimeout(None)
        if message.type is not MessageType.EXITED:
            raise SessionError(f"unexpected {message.type.name} from the Timekeeper")
        return _exited(message)

    def _send(self, kind: MessageType, descriptors: Sequence[int] = (), *, value: int = 0) -> None:
        packet = _LAYOUT.pack(MAGIC, CONTRACT_VERSION, kind, value, 0, self._token, b"")
        rights = array.array("i", descriptors)
        ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)] if descriptors else []
        try:
            self._socket.sendmsg([packet], ancillary)
        except OSError as error:
            raise SessionEnded("the Timekeeper is gone") from error

    def _expect(self, kind: MessageType) -> _Message:
        while True:
            message = self._receive()
            if message.type is kind:
                return message
            if message.type is MessageType.EXITED:
                self._exited.append(_exited(message))
                continue
            if message.type is MessageType.REFUSED:
                raise _refusal(message.text)
            raise SessionError(f"unexpected {message.type.name} from the Timekeeper")

    def _receive(self) -> _Message:
        try:
            packet, rights, _, _ = socket.recv_fds(self._socket, _LAYOUT.size, _MAX_DESCRIPTORS)[:4]
        except ConnectionError as error:
            raise SessionEnded("the Timekeeper is gone") from error
        if not packet:
            raise SessionEnded("the Timekeeper is gone")
        magic, version, kind, value, status, _, text = _LAYOUT.unpack(packet)
        if magic != MAGIC or version != CONTRACT_VERSION:
            raise ProtocolMismatch(
                f"the Timekeeper speaks contract version {version}, this is {CONTRACT_VERSION}"
            )
        return _Message(
            MessageType(kind), value, status, text.split(b"\0", 1)[0].decode(), list(rights)
        )


def _spawn_request(command: Sequence[str], env: Mapping[str, str], cwd: Path) -> bytes:
    parts = [str(cwd), str(len(command)), *command, *(f"{k}={v}" for k, v in env.items())]
    for part in parts:
        if "\0" in part:
            raise ValueError(f"a command or its environment contains a NUL byte: {part!r}")
    return b"".join(os.fsencode(part) + b"\0" for part in parts)


def _exited(message: _Message) -> Exited:
    return Exited(message.value, os.waitstatus_to_exitcode(message.status))


def _refusal(text: str) -> SessionError:
    if "version" in text:
        return ProtocolMismatch(text)
    if "token" in text:
        return TokenRefused(text)
    if "ended" in text:
        return SessionEnded(text)
    return SessionError(text)

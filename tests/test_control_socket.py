"""The control socket against clients that are broken or mean (timekeeper/shared/contract.hpp)."""

from __future__ import annotations

import array
import contextlib
import os
import random
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness import eventually
from warpserve.errors import ProtocolMismatch, SessionEnded, SessionError, TokenRefused
from warpserve.timekeeper import control
from warpserve.timekeeper.control import CONTRACT_VERSION, MAGIC, ControlConnection, MessageType
from warpserve.timekeeper.launcher import RunningSession
from warpserve.timekeeper.options import SessionOptions

LAYOUT = struct.Struct("<IIIIi32s160s")
NO_MESSAGE_TYPES = [0, 13, 2**32 - 1]
REPLIES = [
    MessageType.WELCOME,
    MessageType.REFUSED,
    MessageType.DONE,
    MessageType.SPAWNED,
    MessageType.EXITED,
    MessageType.STATUS_REPLY,
]
FOREVER_S = 30.0  # of host time: no answer by then is a hang


@pytest.fixture
def session(runtime: Path) -> Iterator[RunningSession]:  # noqa: ARG001
    """A session with nothing in it, which must be as good as new after the test."""
    with RunningSession(SessionOptions()) as running:
        running.state()  # by the answer it has taken in our own connection
        before = eventually(lambda: settled_descriptors(running), "a steady set of descriptors")
        yield running
        eventually(lambda: open_descriptors(running) == before, "all descriptors closed again", 10)
        assert running.wait(running.spawn(["/bin/sleep", "1000"])) == 0
        assert running.state().virtual_ns == 1_000_000_000_000


def open_descriptors(session: RunningSession) -> list[str]:
    """What they refer to; without those that the watch keeps on threads as it sees fit."""
    names = []
    for link in Path(f"/proc/{session.timekeeper_pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            names.append(str(link.readlink()))
    return sorted(name for name in names if not name.startswith("/proc/"))


def settled_descriptors(session: RunningSession) -> list[str] | None:
    """The same, where it stays so for a moment: answers travel in descriptors, too."""
    names = open_descriptors(session)
    time.sleep(0.05)
    return names if open_descriptors(session) == names else None


class Client:
    """A raw connection to the control socket."""

    def __init__(self, session: RunningSession) -> None:
        self.token = (session.folder / "token").read_bytes()
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(FOREVER_S)
        self.socket.connect(str(session.folder / "control.sock"))

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(
        self,
        kind: int,
        *,
        magic: int = MAGIC,
        version: int = CONTRACT_VERSION,
        value: int = 0,
        token: bytes | None = None,
        text: bytes = b"",
        descriptors: tuple[int, ...] = (),
    ) -> None:
        token = self.token if token is None else token
        self.send_bytes(LAYOUT.pack(magic, version, kind, value, 0, token, text), descriptors)

    def send_bytes(self, packet: bytes, descriptors: tuple[int, ...] = ()) -> None:
        rights = array.array("i", descriptors)
        ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)] if descriptors else []
        self.socket.sendmsg([packet], ancillary)

    def answer(self) -> tuple[MessageType, str] | None:
        """The type and text of the next answer; None where the connection was closed."""
        try:
            packet, descriptors, _, _ = socket.recv_fds(self.socket, LAYOUT.size, 4)
        except ConnectionError:
            return None
        for descriptor in descriptors:
            os.close(descriptor)
        if not packet:
            return None
        fields = LAYOUT.unpack(packet)
        return MessageType(fields[2]), fields[6].split(b"\0", 1)[0].decode()

    def refusal(self) -> str:
        answer = self.answer()
        assert answer is not None
        kind, text = answer
        assert kind is MessageType.REFUSED
        return text


def test_another_version_is_refused_with_both_named(session: RunningSession) -> None:
    with Client(session) as client:
        client.send(MessageType.HELLO, version=77)
        text = client.refusal()
    assert text == (
        f"this Timekeeper speaks contract version {CONTRACT_VERSION}, the client speaks 77"
    )


def test_the_python_client_raises_what_it_was_refused_for(
    session: RunningSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(control, "CONTRACT_VERSION", 77)
        connection = ControlConnection(session.folder)
        with pytest.raises(ProtocolMismatch, match=rf"version {CONTRACT_VERSION}\b.*\b77"):
            connection.status_json()
        connection.close()
    token = session.folder / "token"
    right = token.read_bytes()
    token.write_bytes(bytes(32))
    connection = ControlConnection(session.folder)
    token.write_bytes(right)
    with pytest.raises(TokenRefused, match="wrong token for this session"):
        connection.status_json()
    connection.close()


def test_a_folder_that_is_being_removed_is_a_session_that_has_ended(tmp_path: Path) -> None:
    with pytest.raises(SessionEnded, match="no Timekeeper answers"):
        ControlConnection(tmp_path)


@pytest.mark.parametrize("kind", list(MessageType))
def test_no_message_works_without_the_token(session: RunningSession, kind: MessageType) -> None:
    with Client(session) as client:
        last_bit_wrong = client.token[:31] + bytes([client.token[31] ^ 1])
        for token in (bytes(32), b"\xff" * 32, last_bit_wrong):
            client.send(kind, token=token)
            assert client.refusal() == "wrong token for this session"


def test_another_magic_is_refused(session: RunningSession) -> None:
    with Client(session) as client:
        client.send(MessageType.STATUS, magic=1)
        assert client.refusal() == "not a warpserve message"


@pytest.mark.parametrize("kind", [*NO_MESSAGE_TYPES, *REPLIES])
def test_what_no_client_sends_is_refused(session: RunningSession, kind: int) -> None:
    with Client(session) as client:
        client.send(kind)
        assert client.refusal() == f"a client does not send message type {int(kind)}"
        client.send(MessageType.STATUS)
        answer = client.answer()
    assert answer is not None
    assert answer[0] is MessageType.STATUS_REPLY


@pytest.mark.parametrize("size", [0, 1, LAYOUT.size - 1, LAYOUT.size + 1, 100_000])
def test_a_packet_of_another_size_ends_the_connection(session: RunningSession, size: int) -> None:
    with Client(session) as client:
        client.send_bytes(b"x" * size)
        assert client.answer() is None


def test_random_packets_are_refused_or_end_the_connection(session: RunningSession) -> None:
    rng = random.Random(7)
    for _ in range(300):
        with Client(session) as client, open("/dev/null", "rb") as file:  # noqa: PTH123
            size = rng.choice([LAYOUT.size, rng.randrange(1, 400)])
            descriptors = (file.fileno(),) * rng.choice([0, 0, 1, 4, 9])
            client.send_bytes(rng.randbytes(size), descriptors)
            answer = client.answer()
            assert answer is None or answer[0] is MessageType.REFUSED


def test_damaged_messages_never_get_more_than_a_refusal(session: RunningSession) -> None:
    """One bit of a good message is wrong, and descriptors come where none belong.

    A question for the status stays one where the damage is in what it does not use.
    """
    rng = random.Random(8)
    kinds = set()
    harmless = [MessageType.WAKE_FD, MessageType.STATUS]
    for _ in range(300):
        with Client(session) as client, open("/dev/null", "rb") as file:  # noqa: PTH123
            packet = bytearray(
                LAYOUT.pack(MAGIC, CONTRACT_VERSION, rng.choice(harmless), 0, 0, client.token, b"")
            )
            packet[rng.randrange(52)] ^= 1 << rng.randrange(8)
            magic, version, kind, _, _, token, _ = LAYOUT.unpack(packet)
            if kind in (MessageType.HELLO, MessageType.END, MessageType.SPAWN):
                continue  # these would do what they say
            client.send_bytes(bytes(packet), (file.fileno(),) * rng.choice([0, 1, 3]))
            answer = client.answer()
            intact = (magic, version, token) == (MAGIC, CONTRACT_VERSION, client.token)
            is_status = intact and kind == MessageType.STATUS
            expected = MessageType.STATUS_REPLY if is_status else MessageType.REFUSED
            assert answer is not None
            assert answer[0] is expected
            kinds.add(expected)
    assert kinds == {MessageType.STATUS_REPLY, MessageType.REFUSED}


def test_members_that_die_at_once_leave_no_descriptor(session: RunningSession) -> None:
    for _ in range(50):
        child = os.fork()
        if child == 0:
            with Client(session) as client:
                client.send(MessageType.HELLO)
                os._exit(0 if client.answer() == (MessageType.WELCOME, "") else 1)
        assert os.waitpid(child, 0)[1] == 0


@pytest.mark.parametrize("slot", [0, 5, 1_000_000, 2**32 - 1])
def test_a_slot_of_nobody_takes_no_descriptor(session: RunningSession, slot: int) -> None:
    with Client(session) as client:
        client.send(MessageType.WAKE_FD, value=slot, descriptors=(0,))
        assert client.refusal() == f"slot {slot} is not this process's"
        client.send(MessageType.WAKE_FD, value=slot)
        assert client.refusal() == "one eventfd is needed"
        client.send(MessageType.WAKE_FD, value=slot, descriptors=(0, 0))
        assert client.refusal() == "one eventfd is needed"


def test_too_many_descriptors_end_the_connection(session: RunningSession) -> None:
    with Client(session) as client:
        client.send(MessageType.HELLO, descriptors=(0,) * 100)
        assert client.answer() is None


def spawn_from(session: RunningSession, request: int) -> None:
    """Has the Timekeeper read a spawn request from the descriptor `request`."""
    session._control._send(MessageType.SPAWN, [request, 0, 1, 2])
    session._control._expect(MessageType.SPAWNED)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "too short"),
        (b"/tmp", "not NUL-terminated"),
        (b"/\0 0\0x\0", "a wrong number of arguments"),
        (b"/\00\0x\0", "a wrong number of arguments"),
        (b"/\09999\0x\0", "a wrong number of arguments"),
        (b"/\099999999999999999999999\0x\0", "a wrong number of arguments"),
        (b"/\0-1\0x\0", "a wrong number of arguments"),
    ],
)
def test_a_broken_spawn_request_is_refused(
    session: RunningSession, content: bytes, why: str
) -> None:
    memfd = os.memfd_create("request")
    os.write(memfd, content)
    with pytest.raises(SessionError, match=why):
        spawn_from(session, memfd)
    os.close(memfd)


def test_a_spawn_request_in_a_file_without_end_is_refused(session: RunningSession) -> None:
    endless = os.open("/dev/zero", os.O_RDONLY)
    with pytest.raises(SessionError):
        spawn_from(session, endless)
    os.close(endless)


def test_a_pipe_for_a_spawn_request_blocks_nobody(session: RunningSession) -> None:
    read_end, write_end = os.pipe()
    with pytest.raises(SessionError):
        spawn_from(session, read_end)
    os.close(read_end)
    os.close(write_end)


def test_connections_that_never_say_anything_do_not_hinder_others(
    session: RunningSession,
) -> None:
    silent = [Client(session) for _ in range(400)]
    assert session.state().members == []
    for client in silent:
        client.socket.close()


def test_a_client_that_never_reads_does_not_hinder_others(session: RunningSession) -> None:
    with Client(session) as client:
        client.socket.setblocking(False)
        sent = 0
        while sent < 5_000:
            try:
                client.send(MessageType.STATUS)
            except BlockingIOError:
                break
            sent += 1
        assert session.state().members == []
        assert sent > 10

"""The messages between a member and the Timekeeper over ZeroMQ, and their codec.

Pure functions over bytes. The C++ counterpart is timekeeper/server/zmq/wire.hpp, the prose is
docs/protocol.md; the three change together, with VERSION.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, TypeAlias, get_args

MAGIC = 0x4B545057
VERSION = 1

HEADER_BYTES = 24
NAME_BYTES = 64
TEXT_BYTES = 192
TOKEN_BYTES = 32
SESSION_ID_BYTES = 16
MAX_WAITS = 1024
STATUS_CHUNK_BYTES = 16_384
MAX_MESSAGE_BYTES = HEADER_BYTES + 4 + MAX_WAITS * 20

_U32_MAX = 2**32 - 1


class Fault(enum.Enum):
    """Why bytes are no message; the value says it to people."""

    TRUNCATED = "the message is truncated"
    BAD_MAGIC = "this is no warpserve message (bad magic)"
    OTHER_VERSION = "the message has another protocol version"
    UNKNOWN_TYPE = "the message has an unknown type"
    TRAILING_BYTES = "bytes follow the end of the message"
    TEXT_TOO_LONG = "a text is too long for its field"
    BAD_TEXT = "a text is not printable ASCII padded with NUL"
    NEGATIVE_TIME = "a time or duration is negative"
    BAD_VALUE = "a field has a value outside its range"
    TOO_MANY = "a list is longer than the protocol allows"


class MalformedMessageError(ValueError):
    """Bytes that are no message of this protocol version. `version` is the sender's."""

    def __init__(self, fault: Fault, version: int) -> None:
        super().__init__(fault.value)
        self.fault = fault
        self.version = version


class Refusal(enum.IntEnum):
    OTHER_VERSION = 1
    WRONG_TOKEN = 2
    SESSION_FULL = 3


class ErrorCode(enum.IntEnum):
    MALFORMED = 1
    NOT_A_MEMBER = 2
    UNEXPECTED = 3
    UNKNOWN_ACTOR = 4
    UNKNOWN_HOLD = 5
    STALE_SEQUENCE = 6
    TOO_MANY_ACTORS = 7
    TOO_MANY_HOLDS = 8
    TOO_MANY_REQUESTS = 9
    SESSION_ENDED = 10


class WaitState(enum.IntEnum):
    """What became of the wait that a Now or a Cancel names."""

    NONE = 0
    PENDING = 1
    OVER = 2
    CANCELLED = 3


class Mode(enum.IntEnum):
    EXACT = 1
    LIVE = 2
    SLEEP = 3


class Guard(enum.IntEnum):
    SETTLE = 1
    BARRIER = 2


class ActorKind(enum.IntEnum):
    ACTOR = 0
    OBSERVER = 1


class Header(NamedTuple):
    member: int = 0
    actor: int = 0
    request: int = 0


class Wait(NamedTuple):
    """One actor's wait; `sequence` counts the waits of the actor from 1."""

    actor: int
    sequence: int
    target_ns: int


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0
        self.version = 0

    def fail(self, fault: Fault) -> MalformedMessageError:
        return MalformedMessageError(fault, self.version)

    def take(self, size: int) -> bytes:
        if size > len(self.data) - self.at:
            raise self.fail(Fault.TRUNCATED)
        self.at += size
        return self.data[self.at - size : self.at]

    def number(self, layout: struct.Struct) -> int:
        (value,) = layout.unpack(self.take(layout.size))
        return int(value)


_U16 = struct.Struct("<H")
_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")
_I64 = struct.Struct("<q")
_HEADER = struct.Struct("<IHHIIQ")
_WAIT = struct.Struct("<IQq")


class _Field(NamedTuple):
    read: Callable[[_Reader], Any]
    write: Callable[[Any], bytes]


def _number(layout: struct.Struct) -> _Field:
    return _Field(lambda reader: reader.number(layout), layout.pack)


def _read_time(reader: _Reader) -> int:
    ns = reader.number(_I64)
    if ns < 0:
        raise reader.fail(Fault.NEGATIVE_TIME)
    return ns


def _choice(kind: type[enum.IntEnum]) -> _Field:
    def read(reader: _Reader) -> enum.IntEnum:
        value = reader.number(_U32)
        try:
            return kind(value)
        except ValueError:
            raise reader.fail(Fault.BAD_VALUE) from None

    return _Field(read, _U32.pack)


def _text(capacity: int) -> _Field:
    def read(reader: _Reader) -> str:
        text, terminator, padding = reader.take(capacity).partition(b"\0")
        if not terminator:
            raise reader.fail(Fault.TEXT_TOO_LONG)
        if any(padding) or not is_text(text):
            raise reader.fail(Fault.BAD_TEXT)
        return text.decode("ascii")

    def write(value: str) -> bytes:
        encoded = value.encode("ascii")
        if len(encoded) >= capacity or not is_text(encoded):
            raise ValueError(
                f"{value!r} is not printable ASCII of at most {capacity - 1} characters"
            )
        return encoded.ljust(capacity, b"\0")

    return _Field(read, write)


def is_text(text: bytes) -> bool:
    return all(0x20 <= byte <= 0x7E for byte in text)


def _octets(size: int) -> _Field:
    def write(value: bytes) -> bytes:
        if len(value) != size:
            raise ValueError(f"expected {size} bytes, not {len(value)}")
        return value

    return _Field(lambda reader: reader.take(size), write)


def _read_waits(reader: _Reader) -> tuple[Wait, ...]:
    count = reader.number(_U32)
    if count > MAX_WAITS:
        raise reader.fail(Fault.TOO_MANY)
    waits = tuple(map(Wait._make, _WAIT.iter_unpack(reader.take(count * _WAIT.size))))
    for wait in waits:
        if wait.target_ns < 0:
            raise reader.fail(Fault.NEGATIVE_TIME)
        if wait.actor == 0 or wait.sequence == 0:
            raise reader.fail(Fault.BAD_VALUE)
    return waits


def _write_waits(waits: tuple[Wait, ...]) -> bytes:
    return _U32.pack(len(waits)) + b"".join(_WAIT.pack(*wait) for wait in waits)


def _read_chunk(reader: _Reader) -> bytes:
    size = reader.number(_U32)
    if size > STATUS_CHUNK_BYTES:
        raise reader.fail(Fault.TOO_MANY)
    return reader.take(size)


_FIELD_U32 = _number(_U32)
_FIELD_U64 = _number(_U64)
_FIELD_TIME = _Field(_read_time, _I64.pack)
_FIELD_NAME = _text(NAME_BYTES)
_FIELD_LINE = _text(TEXT_BYTES)


class Body:
    """A message without its header. TYPE is its number; FIELDS are its fields, in wire order."""

    __slots__ = ()
    TYPE: ClassVar[int]
    FIELDS: ClassVar[dict[str, _Field]] = {}


@dataclass(frozen=True, slots=True)
class Hello(Body):
    TYPE = 1
    FIELDS: ClassVar = {"token": _octets(TOKEN_BYTES), "pid": _FIELD_U32, "name": _FIELD_NAME}
    token: bytes
    pid: int
    name: str


@dataclass(frozen=True, slots=True)
class Welcome(Body):
    TYPE = 2
    FIELDS: ClassVar = {
        "mode": _choice(Mode),
        "guard": _choice(Guard),
        "now_ns": _FIELD_TIME,
        "realtime_epoch_ns": _number(_I64),
        "heartbeat_interval_ns": _FIELD_TIME,
        "silence_limit_ns": _FIELD_TIME,
        "session": _octets(SESSION_ID_BYTES),
    }
    mode: Mode
    guard: Guard
    now_ns: int
    realtime_epoch_ns: int
    heartbeat_interval_ns: int
    silence_limit_ns: int
    session: bytes


@dataclass(frozen=True, slots=True)
class Refused(Body):
    TYPE = 3
    FIELDS: ClassVar = {
        "code": _choice(Refusal),
        "your_version": _FIELD_U32,
        "our_version": _FIELD_U32,
        "text": _FIELD_LINE,
    }
    code: Refusal
    your_version: int
    our_version: int
    text: str


@dataclass(frozen=True, slots=True)
class AddActor(Body):
    TYPE = 4
    FIELDS: ClassVar = {"kind": _choice(ActorKind), "order": _FIELD_U64, "name": _FIELD_NAME}
    kind: ActorKind
    order: int
    name: str


@dataclass(frozen=True, slots=True)
class ActorAdded(Body):
    TYPE = 5
    FIELDS: ClassVar = {"now_ns": _FIELD_TIME}
    now_ns: int


@dataclass(frozen=True, slots=True)
class WaitUntil(Body):
    TYPE = 6
    FIELDS: ClassVar = {"waits": _Field(_read_waits, _write_waits)}
    waits: tuple[Wait, ...]


@dataclass(frozen=True, slots=True)
class Cancel(Body):
    TYPE = 7
    FIELDS: ClassVar = {"sequence": _FIELD_U64}
    sequence: int


@dataclass(frozen=True, slots=True)
class RemoveActor(Body):
    TYPE = 8


@dataclass(frozen=True, slots=True)
class Hold(Body):
    TYPE = 9


@dataclass(frozen=True, slots=True)
class Held(Body):
    TYPE = 10
    FIELDS: ClassVar = {"hold": _FIELD_U32, "now_ns": _FIELD_TIME}
    hold: int
    now_ns: int


@dataclass(frozen=True, slots=True)
class Release(Body):
    TYPE = 11
    FIELDS: ClassVar = {"hold": _FIELD_U32}
    hold: int


@dataclass(frozen=True, slots=True)
class Now(Body):
    TYPE = 12
    FIELDS: ClassVar = {"sequence": _FIELD_U64}
    sequence: int = 0


@dataclass(frozen=True, slots=True)
class Time(Body):
    TYPE = 13
    FIELDS: ClassVar = {
        "now_ns": _FIELD_TIME,
        "sequence": _FIELD_U64,
        "state": _choice(WaitState),
    }
    now_ns: int
    sequence: int
    state: WaitState


@dataclass(frozen=True, slots=True)
class Heartbeat(Body):
    TYPE = 14


@dataclass(frozen=True, slots=True)
class Goodbye(Body):
    TYPE = 15


@dataclass(frozen=True, slots=True)
class Status(Body):
    TYPE = 16


@dataclass(frozen=True, slots=True)
class StatusReply(Body):
    TYPE = 17
    FIELDS: ClassVar = {
        "index": _FIELD_U32,
        "count": _FIELD_U32,
        "chunk": _Field(_read_chunk, lambda chunk: _U32.pack(len(chunk)) + chunk),
    }
    index: int
    count: int
    chunk: bytes


@dataclass(frozen=True, slots=True)
class Error(Body):
    TYPE = 18
    FIELDS: ClassVar = {"code": _choice(ErrorCode), "text": _FIELD_LINE}
    code: ErrorCode
    text: str


@dataclass(frozen=True, slots=True)
class Tick(Body):
    TYPE = 19
    FIELDS: ClassVar = {
        "round": _FIELD_U64,
        "now_ns": _FIELD_TIME,
        "woken": _FIELD_U32,
        "ended": _FIELD_U32,
    }
    round: int
    now_ns: int
    woken: int
    ended: int


Message: TypeAlias = (
    Hello | Welcome | Refused | AddActor | ActorAdded | WaitUntil | Cancel | RemoveActor | Hold
    | Held | Release | Now | Time | Heartbeat | Goodbye | Status | StatusReply | Error | Tick
)  # fmt: skip

MESSAGES: dict[int, type[Body]] = {kind.TYPE: kind for kind in get_args(Message)}


def encode(header: Header, message: Message) -> bytes:
    """Raises ValueError where a field does not fit."""
    head = _HEADER.pack(MAGIC, VERSION, message.TYPE, *header)
    fields = type(message).FIELDS
    return head + b"".join(field.write(getattr(message, name)) for name, field in fields.items())


def decode(data: bytes) -> tuple[Header, Any]:
    """The header and one of `Message`. Raises MalformedMessageError."""
    reader = _Reader(data)
    magic, reader.version, kind = (reader.number(layout) for layout in (_U32, _U16, _U16))
    if magic != MAGIC:
        raise reader.fail(Fault.BAD_MAGIC)
    if reader.version != VERSION:
        raise reader.fail(Fault.OTHER_VERSION)
    message_type = MESSAGES.get(kind)
    if message_type is None:
        raise reader.fail(Fault.UNKNOWN_TYPE)
    header = Header(reader.number(_U32), reader.number(_U32), reader.number(_U64))
    values = {name: field.read(reader) for name, field in message_type.FIELDS.items()}
    if reader.at != len(data):
        raise reader.fail(Fault.TRAILING_BYTES)
    return header, message_type(**values)

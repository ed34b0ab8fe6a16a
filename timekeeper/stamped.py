"""Stamped messages: bytes that carry their virtual send time and a hold (docs/protocol.md)."""

from __future__ import annotations

import struct

from warpserve.errors import SessionError

_STAMP = struct.Struct("<IIqII16s")
_STAMP_MAGIC = 0x54535057
_STAMP_VERSION = 1
_MAX_PAYLOAD_BYTES = 2**32 - 1


def check_payload(payload: bytes) -> None:
    """Before a hold is taken for it. Raises TypeError or SessionError."""
    if not isinstance(payload, bytes | bytearray):
        raise TypeError(f"a message's payload is bytes, not {type(payload).__name__}")
    if len(payload) > _MAX_PAYLOAD_BYTES:
        raise SessionError(f"a message's payload has at most {_MAX_PAYLOAD_BYTES:,} bytes")


def write_stamped(session: bytes, sent_at_ns: int, hold: int, payload: bytes) -> bytes:
    head = _STAMP.pack(_STAMP_MAGIC, _STAMP_VERSION, sent_at_ns, hold, len(payload), session)
    return head + payload


def read_stamped(message: bytes) -> tuple[bytes, int, int, bytes]:
    """Session id, send time in ns, hold, payload. Raises SessionError."""
    head, payload = message[: _STAMP.size], message[_STAMP.size :]
    if len(head) == _STAMP.size:
        magic, version, sent_at_ns, hold, size, session = _STAMP.unpack(head)
        known = magic == _STAMP_MAGIC and version == _STAMP_VERSION
        if known and size == len(payload) and sent_at_ns >= 0:
            return session, sent_at_ns, hold, payload
    raise SessionError("these bytes are no stamped message; send what stamp() returns, unchanged")

"""Waits of Linux that Python has no names for: to the nanosecond, and for a file to grow."""

from __future__ import annotations

import ctypes
import errno
import os
import select
import time
from collections.abc import Sequence
from pathlib import Path

_libc = ctypes.CDLL(None, use_errno=True)
_IN_MODIFY = 0x2
_BUFFER_BYTES = 65_536


class _PollFd(ctypes.Structure):
    _fields_ = (("fd", ctypes.c_int), ("events", ctypes.c_short), ("revents", ctypes.c_short))


class _Timespec(ctypes.Structure):
    _fields_ = (("tv_sec", ctypes.c_long), ("tv_nsec", ctypes.c_long))


def wait_until(instant_ns: int, descriptors: Sequence[int] = ()) -> list[int]:
    """Which of ``descriptors`` can be read, as soon as one can; none at ``instant_ns``.

    The instant is one of CLOCK_MONOTONIC, and ends the wait to the nanosecond.
    """
    polled = (_PollFd * len(descriptors))(*(_PollFd(fd, select.POLLIN, 0) for fd in descriptors))
    while True:
        left_ns = max(0, instant_ns - time.monotonic_ns())
        timeout = _Timespec(*divmod(left_ns, 10**9))
        ready = _libc.ppoll(polled, len(descriptors), ctypes.byref(timeout), None)
        if ready >= 0:
            return [entry.fd for entry in polled if entry.revents]
        if ctypes.get_errno() != errno.EINTR:
            raise _failure("ppoll")


class Growth:
    """Readable when a file of a folder has grown."""

    def __init__(self, folder: Path) -> None:
        self.fd = _libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self.fd < 0 or _libc.inotify_add_watch(self.fd, os.fsencode(folder), _IN_MODIFY) < 0:
            raise _failure("inotify")

    def clear(self) -> None:
        """Forgets what has been written so far."""
        try:
            while os.read(self.fd, _BUFFER_BYTES):
                pass
        except BlockingIOError:
            return

    def close(self) -> None:
        os.close(self.fd)


def _failure(call: str) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, f"{call}: {os.strerror(number)}")

"""Sleeping in an event loop for any duration. Sleeps of its own end at whole milliseconds."""

from __future__ import annotations

import asyncio
import ctypes
import os
import time

_LIBC = ctypes.CDLL(None, use_errno=True)
_NONBLOCK_CLOEXEC = os.O_NONBLOCK | os.O_CLOEXEC


class _Timespec(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("ns", ctypes.c_long))


class _Setting(ctypes.Structure):
    """struct itimerspec."""

    _fields_ = (("interval", _Timespec), ("value", _Timespec))


async def sleep_ns(duration_ns: int) -> None:
    """Returns at once for 0. Raises OSError where the process has no descriptor left."""
    if duration_ns == 0:
        return
    loop = asyncio.get_running_loop()
    rang = asyncio.Event()
    timer = _timer(duration_ns)
    try:
        loop.add_reader(timer, rang.set)
        await rang.wait()
    finally:
        loop.remove_reader(timer)
        os.close(timer)


def _timer(duration_ns: int) -> int:
    """A timerfd: `os` has them from Python 3.13 on."""
    timer: int = _LIBC.timerfd_create(time.CLOCK_MONOTONIC, _NONBLOCK_CLOEXEC)
    if timer < 0:
        raise OSError(ctypes.get_errno(), "timerfd_create")
    setting = _Setting(value=_Timespec(*divmod(duration_ns, 10**9)))
    _LIBC.timerfd_settime(timer, 0, ctypes.byref(setting), None)
    return timer

"""Taking part in a session explicitly: the clock, actors and holds.

For programs on the Timekeeper's host, in any Python from 3.10 on, with nothing installed: this
module needs the standard library only. `warpserve.timekeeper.remote` does the same from other
hosts.

    session = Session.join()          # in a program run by `warpserve run`
    with session.actor("gpu 0") as gpu:
        gpu.jump(VirtualDuration.from_ms(5))
        await gpu.jump_async(VirtualDuration.from_ms(5))
    with session.hold("loading"):
        ...                           # time stands still meanwhile
"""

from __future__ import annotations

import asyncio
import ctypes
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from warpserve.errors import InvalidDuration, SessionEnded, SessionError
from warpserve.timekeeper.units import HostTime, VirtualDuration, VirtualTime

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

# enum ws_status of timekeeper/preload/warpserve.h
_WS_NEGATIVE, _WS_OUT_OF_RANGE, _WS_CANCELLED, _WS_INTERRUPTED = -5, -6, -7, -8
_WS_ENDED = -10


class WaitCancelled(SessionError):
    """Actor.cancel() has ended the wait."""


class Session:
    """This process's membership in a session. Made by `Session.join`."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library

    @classmethod
    def join(cls, folder: Path | str | None = None) -> Self:
        """The session that this process was started in, or else the one in `folder`.

        A process that joins so keeps the host's clocks; only what it does with this object takes
        part. Raises SessionError where there is no session to join.
        """
        library = _load_library()
        if not library.ws_is_member():
            if folder is None:
                raise SessionError(
                    "this process is in no session: run it with `warpserve run -- …`, or give the "
                    "folder of a session"
                )
            if library.ws_join(os.fsencode(folder)) != 0:
                raise SessionError(library.ws_join_error().decode())
        return cls(library)

    @property
    def folder(self) -> Path:
        """The session's folder."""
        return Path(os.fsdecode(self._library.ws_session_folder()))

    def now(self) -> VirtualTime:
        """The virtual time, since the start of the session."""
        return VirtualTime.from_ns(self._library.ws_now_ns())

    def host_now(self) -> HostTime:
        """The host's CLOCK_MONOTONIC, whatever the clocks of this process show."""
        return HostTime.from_ns(self._library.ws_host_now_ns())

    def settle(self) -> None:
        """Returns when nothing more happens at this instant, and before time advances.

        What others do and send at it has then been done and has arrived. At once where host time
        passes.
        """
        _check(self._library, self._library.ws_settle())

    def actor(self, label: str) -> Actor:
        """A new actor; `label` (23 bytes are kept) is what `warpserve status` shows."""
        return Actor(self._library, label)

    def hold(self, label: str) -> Hold:
        """Keeps time from advancing, as a context manager, until it is released."""
        return Hold(self._library, label)


class Actor:
    """Whoever knows when its next action completes. One wait at a time.

    Under the barrier guard, time advances only while every actor waits.
    """

    def __init__(self, library: ctypes.CDLL, label: str) -> None:
        self._library = library
        self._handle = ctypes.c_void_p()
        self._eventfd = -1
        _check(library, library.ws_actor_create(label.encode(), ctypes.byref(self._handle)))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Gives the actor back. No wait of it may be going on."""
        self._library.ws_actor_destroy(self._handle)
        self._handle = ctypes.c_void_p()
        if self._eventfd >= 0:
            os.close(self._eventfd)
            self._eventfd = -1

    def jump(self, duration: VirtualDuration) -> None:
        """Returns when `duration` of virtual time has passed."""
        _check(self._library, self._library.ws_actor_jump(self._handle, duration.ns))

    def wait_until(self, target: VirtualTime) -> None:
        """Returns when virtual time has reached `target`; at once where it has."""
        while True:
            status = self._library.ws_actor_wait_until(self._handle, target.ns)
            if status != _WS_INTERRUPTED:
                _check(self._library, status)
                return

    def cancel(self) -> None:
        """Ends the wait that another thread is in, or the next one, with WaitCancelled."""
        _check(self._library, self._library.ws_actor_cancel(self._handle))

    async def jump_async(self, duration: VirtualDuration) -> None:
        """`jump` for asyncio."""
        now = VirtualTime.from_ns(self._library.ws_now_ns())
        await self.wait_until_async(now + duration)

    async def wait_until_async(self, target: VirtualTime) -> None:
        """`wait_until` for asyncio; the wait ends when the task is cancelled."""
        if self._eventfd < 0:
            self._eventfd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        reached = asyncio.Event()
        loop = asyncio.get_running_loop()
        loop.add_reader(self._eventfd, self._drain_into, reached)
        try:
            _check(
                self._library,
                self._library.ws_actor_arm(self._handle, target.ns, self._eventfd),
            )
            while not self._library.ws_actor_is_due(self._handle):
                await reached.wait()
                reached.clear()
        finally:
            self._library.ws_actor_disarm(self._handle)
            loop.remove_reader(self._eventfd)

    def _drain_into(self, reached: asyncio.Event) -> None:
        os.eventfd_read(self._eventfd)
        reached.set()


class Hold:
    """While it is out, virtual time stands still."""

    def __init__(self, library: ctypes.CDLL, label: str) -> None:
        self._library = library
        self._handle = ctypes.c_void_p()
        _check(library, library.ws_hold_create(label.encode(), ctypes.byref(self._handle)))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.release()

    def release(self) -> None:
        """Lets time go on. Safe to call again."""
        self._library.ws_hold_release(self._handle)
        self._handle = ctypes.c_void_p()


def _load_library() -> ctypes.CDLL:
    """The C API: from the preloaded library, or from this installation."""
    library = ctypes.CDLL(None)
    if not hasattr(library, "ws_is_member"):
        from warpserve.timekeeper.native import preload_library

        library = ctypes.CDLL(str(preload_library()))
    pointer, text, i64 = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int64
    signatures: dict[str, tuple[Any, list[Any]]] = {
        "ws_error": (text, [ctypes.c_int]),
        "ws_join": (ctypes.c_int, [text]),
        "ws_join_error": (text, []),
        "ws_is_member": (ctypes.c_int, []),
        "ws_session_folder": (text, []),
        "ws_now_ns": (i64, []),
        "ws_host_now_ns": (i64, []),
        "ws_settle": (ctypes.c_int, []),
        "ws_actor_create": (ctypes.c_int, [text, ctypes.POINTER(pointer)]),
        "ws_actor_wait_until": (ctypes.c_int, [pointer, i64]),
        "ws_actor_jump": (ctypes.c_int, [pointer, i64]),
        "ws_actor_cancel": (ctypes.c_int, [pointer]),
        "ws_actor_arm": (ctypes.c_int, [pointer, i64, ctypes.c_int]),
        "ws_actor_is_due": (ctypes.c_int, [pointer]),
        "ws_actor_disarm": (ctypes.c_int, [pointer]),
        "ws_actor_destroy": (None, [pointer]),
        "ws_hold_create": (ctypes.c_int, [text, ctypes.POINTER(pointer)]),
        "ws_hold_release": (None, [pointer]),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


def _check(library: ctypes.CDLL, status: int) -> None:
    if status >= 0:
        return
    text = library.ws_error(status).decode()
    if status in (_WS_NEGATIVE, _WS_OUT_OF_RANGE):
        raise InvalidDuration(text)
    if status == _WS_CANCELLED:
        raise WaitCancelled(text)
    if status == _WS_ENDED:
        raise SessionEnded(text)
    raise SessionError(text)

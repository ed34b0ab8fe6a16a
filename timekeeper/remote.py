"""The Python API of a session, over ZeroMQ: read the clock, jump, hold, stamp messages.

    with RemoteSession.connect("remote.toml", name="dispatcher") as session:
        gpu = session.add_actor("gpu0")
        gpu.jump(VirtualDuration.from_ms(12))            # blocks
        await gpu.jump_async(VirtualDuration.from_ms(12))  # the same under asyncio

All calls may come from any thread; an actor is for one thread or task at a time, but for cancel().
Use it in processes that are not members by `warpserve run`, on this host or on others.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import struct
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, TypeVar

import tomllib
import zmq

from warpserve.errors import (
    InvalidDuration,
    ProtocolMismatch,
    SessionEnded,
    SessionError,
    TokenRefused,
)
from warpserve.timekeeper import wire
from warpserve.timekeeper.units import MAX_NS, HostDuration, VirtualDuration, VirtualTime
from warpserve.timekeeper.wire import ActorKind

__all__ = ["Accepted", "Actor", "ActorKind", "Hold", "RemoteSession"]

_T = TypeVar("_T")

_BUNDLE_KEYS = {
    "version",
    "requests",
    "updates",
    "token",
    "server_public_key",
    "client_public_key",
    "client_secret_key",
}
_LOCAL_BUNDLE = "connection.toml"
_HIGH_WATER = 65_536
_LINGER_MS = 200
_NS_PER_MS = 1_000_000


class RemoteSession:
    """A member's side of a session. Make one with `connect`; leave with `close` or `with`."""

    def __init__(self, link: _Link) -> None:
        self._link = link

    @classmethod
    def connect(
        cls,
        path: str | os.PathLike[str],
        *,
        name: str,
        timeout: HostDuration | None = None,
        reask_interval: HostDuration | None = None,
        loses_tick: Callable[[wire.Tick], bool] | None = None,
    ) -> RemoteSession:
        """Become a member.

        `path` is the session's folder on this host, or a bundle (remote.toml) copied from there.
        `timeout` (5 s) bounds connecting and each request; `reask_interval` (100 ms) is what a
        lost broadcast costs; `loses_tick` says which broadcasts to lose, for tests.

        Raises SessionError, ProtocolMismatch or TokenRefused.
        """
        link = _Link(
            _read_bundle(Path(path)),
            name=name,
            timeout=timeout or HostDuration.from_seconds(5),
            reask_interval=reask_interval or HostDuration.from_ms(100),
            loses_tick=loses_tick or (lambda _tick: False),
        )
        return cls(link)

    def close(self) -> None:
        """Leave: the actors and holds of this member go with it, those of messages too."""
        self._link.close()

    def __enter__(self) -> RemoteSession:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def now(self) -> VirtualTime:
        """As this process knows it, without asking: for an actor the barrier waits for, exact."""
        return VirtualTime(self._link.now_ns())

    def ask_now(self) -> VirtualTime:
        """As the Timekeeper knows it."""
        return self._link.result(self._ask_now())

    async def ask_now_async(self) -> VirtualTime:
        return await asyncio.wrap_future(self._ask_now())

    def add_actor(self, name: str, *, kind: ActorKind = ActorKind.ACTOR, order: int = 0) -> Actor:
        """An actor of this process. `order` resolves ties under settle, then creation does."""
        return self._link.result(self._add_actor(name, kind, order))

    async def add_actor_async(
        self, name: str, *, kind: ActorKind = ActorKind.ACTOR, order: int = 0
    ) -> Actor:
        return await asyncio.wrap_future(self._add_actor(name, kind, order))

    def hold(self) -> Hold:
        """Virtual time may not advance until the hold is released, or its `with` block ends."""
        return self._link.result(self._hold(Hold))

    async def hold_async(self) -> Hold:
        return await asyncio.wrap_future(self._hold(Hold))

    def status(self) -> dict[str, Any]:
        """The session as it stands, as `warpserve status --json` shows it."""
        replies = self._link.result(self._link.ask(wire.Status()))
        status: dict[str, Any] = json.loads(b"".join(reply.chunk for _, reply in replies))
        return status

    def stamp(self, payload: bytes) -> bytes:
        """A message that carries its virtual send time and a hold.

        Until its receiver lets go of it (`accept`) time stands still, so a message in flight is
        never overtaken by time, however long it travels.
        """
        return self._link.result(self._stamp(payload))

    async def stamp_async(self, payload: bytes) -> bytes:
        return await asyncio.wrap_future(self._stamp(payload))

    @contextmanager
    def accept(self, message: bytes) -> Iterator[Accepted]:
        """Time stands still in the block: register there what follows from the message.

        Register with `start_jump` or `start_wait`; a jump that blocks in the block would wait for
        itself. A message is for one receiver. Raises SessionError where the bytes are no stamped
        message of this session, or time has passed it because its sender left too early.
        """
        session, sent_at_ns, hold, payload = _read_stamped(message)
        if session != self._link.welcome.session:
            raise SessionError("the message was stamped in another session")
        if self._link.welcome.mode is wire.Mode.EXACT and self._link.now_ns() > sent_at_ns:
            raise SessionError(
                "time has passed this message: it was accepted before, or its sender left or died "
                "while it was in flight"
            )
        self._link.learn(sent_at_ns)
        with Hold(self._link, hold):
            yield Accepted(VirtualTime(sent_at_ns), payload)

    def _ask_now(self) -> Future[VirtualTime]:
        return _map(self._link.ask(wire.Now()), lambda replies: VirtualTime(replies[0][1].now_ns))

    def _add_actor(self, name: str, kind: ActorKind, order: int) -> Future[Actor]:
        _check_name(name)
        asked = self._link.ask(wire.AddActor(kind, order, name))
        return _map(asked, lambda replies: Actor(self._link, replies[0][0].actor))

    def _hold(self, make: Callable[[_Link, int], _T]) -> Future[_T]:
        return _map(
            self._link.ask(wire.Hold()), lambda replies: make(self._link, replies[0][1].hold)
        )

    def _stamp(self, payload: bytes) -> Future[bytes]:
        session = self._link.welcome.session
        return _map(
            self._link.ask(wire.Hold()),
            lambda replies: _write_stamped(
                session, replies[0][1].now_ns, replies[0][1].hold, payload
            ),
        )


class Actor:
    """Whoever waits for an instant. The barrier waits for it until it is removed.

    Waits return the virtual time at which they return: at or after the target, or before it
    where another thread has cancelled the wait. They raise InvalidDuration or SessionError.
    """

    def __init__(self, link: _Link, number: int) -> None:
        self._link = link
        self._number = number

    def jump(self, dt: VirtualDuration) -> VirtualTime:
        """Return when virtual time has reached now + `dt`."""
        return self.start_jump(dt).result()

    def wait_until(self, target: VirtualTime) -> VirtualTime:
        """Return when virtual time has reached `target`."""
        return self.start_wait(target).result()

    async def jump_async(self, dt: VirtualDuration) -> VirtualTime:
        """As `jump`. Cancelling the task cancels the wait."""
        return await self._finish_async(self.start_jump(dt))

    async def wait_until_async(self, target: VirtualTime) -> VirtualTime:
        """As `wait_until`. Cancelling the task cancels the wait."""
        return await self._finish_async(self.start_wait(target))

    def start_jump(self, dt: VirtualDuration) -> Future[VirtualTime]:
        """Register the jump and go on; the result comes with the future."""
        if type(dt) is not VirtualDuration:
            raise TypeError(f"a jump takes a VirtualDuration, not {type(dt).__name__}")
        target_ns = self._link.now_ns() + dt.ns
        if target_ns > MAX_NS:
            raise InvalidDuration(f"now + {dt} is beyond what the clock holds")
        return self._link.start_wait(self._number, target_ns)

    def start_wait(self, target: VirtualTime) -> Future[VirtualTime]:
        """Register the wait and go on. A second start takes the first one's place."""
        if type(target) is not VirtualTime:
            raise TypeError(f"a wait takes a VirtualTime, not {type(target).__name__}")
        return self._link.start_wait(self._number, target.ns)

    def cancel(self) -> bool:
        """End the wait: once this returns, time stands still for the actor.

        False where the wait was over already, or there was none.
        """
        cancelled = self._link.cancel(self._number)
        return cancelled is not None and self._link.result(cancelled)

    async def cancel_async(self) -> bool:
        cancelled = self._link.cancel(self._number)
        return cancelled is not None and await asyncio.wrap_future(cancelled)

    def remove(self) -> None:
        """The barrier waits for this actor no longer."""
        self._link.tell(wire.RemoveActor(), actor=self._number)
        self._link.forget(self._number)

    async def _finish_async(self, wait: Future[VirtualTime]) -> VirtualTime:
        try:
            return await asyncio.wrap_future(wait)
        except asyncio.CancelledError:
            with contextlib.suppress(SessionError):  # what has ended needs no cancelling
                self._link.cancel(self._number)
            raise


class Hold:
    """Virtual time may not advance until this is released."""

    def __init__(self, link: _Link, number: int) -> None:
        self._link = link
        self._number: int | None = number

    def release(self) -> None:
        number, self._number = self._number, None
        if number is not None:
            self._link.tell(wire.Release(number))

    def __enter__(self) -> Hold:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.release()


@dataclass(frozen=True, slots=True)
class Accepted:
    """A stamped message that has arrived: when it was sent, and what it says."""

    sent_at: VirtualTime
    payload: bytes


# --- Stamped messages ---------------------------------------------------------------------------

_STAMP = struct.Struct("<IIqII16s")
_STAMP_MAGIC = 0x54535057
_STAMP_VERSION = 1


def _write_stamped(session: bytes, sent_at_ns: int, hold: int, payload: bytes) -> bytes:
    head = _STAMP.pack(_STAMP_MAGIC, _STAMP_VERSION, sent_at_ns, hold, len(payload), session)
    return head + payload


def _read_stamped(message: bytes) -> tuple[bytes, int, int, bytes]:
    """Session id, send time in ns, hold, payload."""
    head, payload = message[: _STAMP.size], message[_STAMP.size :]
    if len(head) == _STAMP.size:
        magic, version, sent_at_ns, hold, size, session = _STAMP.unpack(head)
        known = magic == _STAMP_MAGIC and version == _STAMP_VERSION
        if known and size == len(payload) and sent_at_ns >= 0:
            return session, sent_at_ns, hold, payload
    raise SessionError("these bytes are no stamped message; send what stamp() returns, unchanged")


# --- The connection -----------------------------------------------------------------------------


def _read_bundle(path: Path) -> dict[str, str]:
    file = path / _LOCAL_BUNDLE if path.is_dir() else path
    try:
        bundle: dict[str, str] = tomllib.loads(file.read_text())
    except OSError as error:
        raise SessionError(
            f"cannot read {file} ({error.strerror}); is the session running, and is it yours?"
        ) from error
    except ValueError as error:
        raise SessionError(f"{file} is no connection bundle ({error}); copy it again") from error
    if bundle.get("version") != "1":
        raise ProtocolMismatch(
            f"{file} has version {bundle.get('version')}, this client reads version 1; use the "
            "same warpserve on both hosts"
        )
    if set(bundle) != _BUNDLE_KEYS:
        wrong = ", ".join(sorted(set(bundle) ^ _BUNDLE_KEYS))
        raise SessionError(f"{file} lacks keys or has unknown ones: {wrong}; copy it again")
    if not re.fullmatch(f"[0-9a-f]{{{2 * wire.TOKEN_BYTES}}}", str(bundle["token"])):
        raise SessionError(f"the token in {file} is damaged; copy it again")
    return bundle


def _check_name(name: str) -> None:
    encoded = name.encode("ascii", "replace")
    if len(encoded) >= wire.NAME_BYTES or not name.isascii() or not wire.is_text(encoded):
        raise SessionError(
            f"the name {name!r} must be printable ASCII of at most {wire.NAME_BYTES - 1} characters"
        )


def _map(source: Future[list[Any]], convert: Callable[[list[Any]], _T]) -> Future[_T]:
    """A future of the converted result."""
    target: Future[_T] = Future()
    target.set_running_or_notify_cancel()

    def finish(done: Future[list[Any]]) -> None:
        error = done.exception()
        if error is not None:
            target.set_exception(error)
        else:
            target.set_result(convert(done.result()))

    source.add_done_callback(finish)
    return target


class _Pending(Generic[_T]):
    """A future that only the I/O thread ends: cancelling an asyncio wrapper does not end it."""

    def __init__(self) -> None:
        self.future: Future[_T] = Future()
        self.future.set_running_or_notify_cancel()


class _Wait(_Pending[VirtualTime]):
    def __init__(self, wait: wire.Wait) -> None:
        super().__init__()
        self.wait = wait


class _Request(_Pending[list[Any]]):
    def __init__(self) -> None:
        super().__init__()
        self.replies: list[Any] = []


class _Link:
    """The sockets, the heartbeat, and the waits of all actors: one I/O thread a member."""

    def __init__(
        self,
        bundle: dict[str, str],
        *,
        name: str,
        timeout: HostDuration,
        reask_interval: HostDuration,
        loses_tick: Callable[[wire.Tick], bool],
    ) -> None:
        _check_name(name)
        self._timeout = timeout
        self._reask_interval_ns = reask_interval.ns
        self._loses_tick = loses_tick
        self._lock = threading.Lock()
        self._outbox: list[wire.Wait | bytes] = []
        self._requests: dict[int, _Request] = {}
        self._waits: dict[int, _Wait] = {}
        self._sequences: dict[int, int] = {}
        self._next_request = 1
        self._ended: Exception | None = None
        self._stopping = False
        # Exact: the latest virtual time heard of. Else: virtual time minus host time, at least.
        self._value_ns = 0
        self.member = 0

        self._context = zmq.Context()
        self._wake_fd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        try:
            self._open_sockets(bundle)
            self.welcome = self._say_hello(bytes.fromhex(bundle["token"]), name)
        except BaseException:
            self._context.destroy(linger=0)
            os.close(self._wake_fd)
            raise
        self._carries_itself = self.welcome.mode is not wire.Mode.EXACT
        self._value_ns = -MAX_NS if self._carries_itself else 0
        self.learn(self.welcome.now_ns)
        self._thread = threading.Thread(target=self._run, name="warpserve-link", daemon=True)
        self._thread.start()

    # Any thread

    def now_ns(self) -> int:
        return self._value_ns + (time.monotonic_ns() if self._carries_itself else 0)

    def learn(self, now_ns: int) -> None:
        """What a message says about virtual time: it has been reached."""
        value_ns = now_ns - (time.monotonic_ns() if self._carries_itself else 0)
        with self._lock:
            self._value_ns = max(self._value_ns, value_ns)

    def result(self, future: Future[_T]) -> _T:
        try:
            return future.result(self._timeout.to_seconds())
        except FutureTimeoutError:
            raise SessionError(
                "the Timekeeper does not answer; see `warpserve status` on its host"
            ) from None

    def ask(self, message: wire.Message, *, actor: int = 0) -> Future[list[Any]]:
        """The replies as (header, message) pairs: one, or a status in several."""
        request = _Request()
        with self._lock:
            self._raise_if_ended()
            number = self._next_request
            self._next_request += 1
            self._requests[number] = request
            self._post(wire.encode(wire.Header(self.member, actor, number), message))
        return request.future

    def tell(self, message: wire.Message, *, actor: int = 0) -> None:
        with self._lock:
            if self._ended is None:
                self._post(wire.encode(wire.Header(self.member, actor), message))

    def start_wait(self, actor: int, target_ns: int) -> Future[VirtualTime]:
        with self._lock:
            self._raise_if_ended()
            sequence = self._sequences.get(actor, 0) + 1
            self._sequences[actor] = sequence
            replaced = self._waits.get(actor)
            wait = self._waits[actor] = _Wait(wire.Wait(actor, sequence, target_ns))
            self._post(wait.wait)
        if replaced is not None:
            replaced.future.set_result(VirtualTime(self.now_ns()))
        return wait.future

    def cancel(self, actor: int) -> Future[bool] | None:
        """Nothing where the actor does not wait."""
        with self._lock:
            wait = self._waits.get(actor)
        if wait is None:
            return None

        def finish(replies: list[Any]) -> bool:
            _, reply = replies[0]
            self._end_wait(actor, wait.wait.sequence, reply.now_ns)
            return bool(reply.state is wire.WaitState.CANCELLED)

        return _map(self.ask(wire.Cancel(wait.wait.sequence), actor=actor), finish)

    def forget(self, actor: int) -> None:
        with self._lock:
            self._sequences.pop(actor, None)
            wait = self._waits.pop(actor, None)
        if wait is not None:
            wait.future.set_result(VirtualTime(self.now_ns()))

    def close(self) -> None:
        self.tell(wire.Goodbye())
        with self._lock:
            if self._stopping:
                return
            self._stopping = True
            os.eventfd_write(self._wake_fd, 1)
        self._thread.join()
        self._context.destroy(linger=_LINGER_MS)
        os.close(self._wake_fd)

    def _raise_if_ended(self) -> None:
        if self._ended is not None:
            raise type(self._ended)(*self._ended.args)

    def _post(self, item: wire.Wait | bytes) -> None:
        self._outbox.append(item)
        os.eventfd_write(self._wake_fd, 1)

    # Connecting

    def _open_sockets(self, bundle: dict[str, str]) -> None:
        self._dealer = self._context.socket(zmq.DEALER)
        self._updates = self._context.socket(zmq.SUB)
        for socket in (self._dealer, self._updates):
            socket.set_hwm(_HIGH_WATER)
            socket.setsockopt(zmq.MAXMSGSIZE, wire.MAX_MESSAGE_BYTES)
            socket.setsockopt(zmq.IMMEDIATE, 1)
            socket.setsockopt(zmq.LINGER, _LINGER_MS)
            if bundle["server_public_key"]:
                socket.curve_serverkey = bundle["server_public_key"].encode()
                socket.curve_publickey = bundle["client_public_key"].encode()
                socket.curve_secretkey = bundle["client_secret_key"].encode()
        self._updates.subscribe(b"")
        self._dealer.connect(bundle["requests"])
        self._updates.connect(bundle["updates"])
        if not self._dealer.poll(self._timeout.ns // _NS_PER_MS, zmq.POLLOUT):
            raise SessionError(
                f"no Timekeeper answers at {bundle['requests']}; is the session running, can this "
                "host reach it, and is the bundle of this very session?"
            )

    def _say_hello(self, token: bytes, name: str) -> wire.Welcome:
        self._dealer.send(wire.encode(wire.Header(), wire.Hello(token, os.getpid(), name)))
        if not self._dealer.poll(self._timeout.ns // _NS_PER_MS):
            raise SessionError("the Timekeeper does not answer the hello")
        header, message = _decode(self._dealer.recv())
        if isinstance(message, wire.Refused):
            raise _refusal(message)
        if not isinstance(message, wire.Welcome):
            raise SessionError("the Timekeeper does not answer the hello as it should")
        self.member = header.member
        return message

    # The I/O thread

    def _run(self) -> None:
        try:
            self._serve()
            ended: Exception = SessionEnded("this session has been closed")
        except Exception as error:
            ended = error
        self._fail_all(ended)

    def _serve(self) -> None:
        poller = zmq.Poller()
        for source in (self._dealer, self._updates, self._wake_fd):
            poller.register(source, zmq.POLLIN)
        self._unanswered_heartbeats = 0
        next_heartbeat_ns = time.monotonic_ns() + self.welcome.heartbeat_interval_ns
        self._next_reask_ns = time.monotonic_ns() + self._reask_interval_ns
        unsent: list[bytes] = []
        while True:
            poller.modify(self._dealer, zmq.POLLIN | (zmq.POLLOUT if unsent else 0))
            until_ns = min(next_heartbeat_ns, self._next_reask_ns, self._next_due_ns())
            wait_ns = max(0, until_ns - time.monotonic_ns())
            poller.poll(-(-wait_ns // _NS_PER_MS))
            with contextlib.suppress(BlockingIOError):
                os.eventfd_read(self._wake_fd)
            self._receive()
            now_ns = time.monotonic_ns()
            if now_ns >= next_heartbeat_ns:
                next_heartbeat_ns = now_ns + self.welcome.heartbeat_interval_ns
                self._send_heartbeat()
            if now_ns >= self._next_reask_ns:
                self._next_reask_ns = now_ns + self._reask_interval_ns
                if self._waits:
                    self.tell(wire.Now())
            unsent = self._flush(unsent)
            if self._carries_itself:
                self._end_due(0, self.now_ns())
            if self._stopping:
                return

    def _send_heartbeat(self) -> None:
        """Unanswered heartbeats are counted, not the time.

        A process that was stopped for a while has heard nothing, but has not asked either.
        """
        silence_ns = self._unanswered_heartbeats * self.welcome.heartbeat_interval_ns
        if silence_ns >= self.welcome.silence_limit_ns:
            raise SessionEnded("the Timekeeper is silent: it has died, or the network is down")
        self._unanswered_heartbeats += 1
        self.tell(wire.Heartbeat())

    def _next_due_ns(self) -> int:
        """Host time at which virtual time reaches the next target by itself."""
        with self._lock:
            if not self._carries_itself or not self._waits:
                return MAX_NS
            return min(wait.wait.target_ns for wait in self._waits.values()) - self._value_ns

    def _receive(self) -> None:
        for socket in (self._updates, self._dealer):
            with contextlib.suppress(zmq.Again):
                while True:
                    self._handle(socket.recv(zmq.NOBLOCK))

    def _handle(self, data: bytes) -> None:
        self._unanswered_heartbeats = 0
        header, message = _decode(data)
        if isinstance(message, wire.Tick):
            self._handle_tick(message)
        elif isinstance(message, wire.Error):
            self._handle_error(header, message)
        elif isinstance(message, wire.Time) and header.request == 0:
            self._handle_time(header, message)
        else:
            self._handle_reply(header, message)

    def _handle_tick(self, tick: wire.Tick) -> None:
        if self._loses_tick(tick):
            return
        self.learn(tick.now_ns)
        if tick.ended:
            raise SessionEnded("the session has ended")
        self._end_due(tick.woken, tick.now_ns)
        self._next_reask_ns = time.monotonic_ns() + self._reask_interval_ns

    def _handle_time(self, header: wire.Header, reply: wire.Time) -> None:
        """The answer to a heartbeat, or to what was asked because a broadcast may be lost."""
        self.learn(reply.now_ns)
        if reply.sequence != 0:
            if reply.state is not wire.WaitState.PENDING:
                self._end_wait(header.actor, reply.sequence, reply.now_ns)
        elif self.welcome.guard is wire.Guard.BARRIER:
            self._end_due(0, reply.now_ns)
        else:
            # A due actor may still have to wait for its turn: only the Timekeeper knows.
            with self._lock:
                waits = [wait.wait for wait in self._waits.values()]
            for wait in waits:
                if wait.target_ns <= reply.now_ns:
                    self.tell(wire.Now(wait.sequence), actor=wait.actor)

    def _handle_error(self, header: wire.Header, error: wire.Error) -> None:
        ended = error.code is wire.ErrorCode.SESSION_ENDED
        exception = SessionEnded(error.text) if ended else SessionError(error.text)
        if header.request:
            with self._lock:
                request = self._requests.pop(header.request, None)
            if request is not None:
                request.future.set_exception(exception)
        elif header.actor:
            with self._lock:
                wait = self._waits.pop(header.actor, None)
            if wait is not None:
                wait.future.set_exception(exception)
        else:
            raise exception

    def _handle_reply(self, header: wire.Header, message: Any) -> None:
        now_ns = getattr(message, "now_ns", None)
        if now_ns is not None:
            self.learn(now_ns)
        is_part = isinstance(message, wire.StatusReply) and message.index + 1 < message.count
        with self._lock:
            request = self._requests.get(header.request)
            if request is None:
                return
            request.replies.append((header, message))
            if is_part:
                return
            del self._requests[header.request]
        request.future.set_result(request.replies)

    def _end_due(self, only: int, now_ns: int) -> None:
        """End what is due at `now_ns`: of all actors (0), or of one."""
        with self._lock:
            due = [
                wait
                for actor, wait in self._waits.items()
                if only in (0, actor) and wait.wait.target_ns <= now_ns
            ]
            for wait in due:
                del self._waits[wait.wait.actor]
        for wait in due:
            wait.future.set_result(VirtualTime(now_ns))

    def _end_wait(self, actor: int, sequence: int, now_ns: int) -> None:
        with self._lock:
            wait = self._waits.get(actor)
            if wait is None or wait.wait.sequence != sequence:
                return
            del self._waits[actor]
        wait.future.set_result(VirtualTime(now_ns))

    def _flush(self, unsent: list[bytes]) -> list[bytes]:
        """Sends what waits; neighbouring waits share a message. Returns what did not go out."""
        with self._lock:
            outbox, self._outbox = self._outbox, []
        messages = unsent + self._joined(outbox)
        for index, message in enumerate(messages):
            try:
                self._dealer.send(message, zmq.NOBLOCK)
            except zmq.Again:
                return messages[index:]
        return []

    def _joined(self, outbox: list[wire.Wait | bytes]) -> list[bytes]:
        messages: list[bytes] = []
        waits: list[wire.Wait] = []

        def close_batch() -> None:
            if waits:
                body = wire.WaitUntil(tuple(waits))
                messages.append(wire.encode(wire.Header(self.member), body))
                waits.clear()

        for item in outbox:
            if isinstance(item, bytes):
                close_batch()
                messages.append(item)
            else:
                waits.append(item)
                if len(waits) == wire.MAX_WAITS:
                    close_batch()
        close_batch()
        return messages

    def _fail_all(self, error: Exception) -> None:
        with self._lock:
            self._ended = error
            pending: list[_Pending[Any]] = [*self._requests.values(), *self._waits.values()]
            self._requests.clear()
            self._waits.clear()
        for item in pending:
            item.future.set_exception(error)


def _decode(data: bytes) -> tuple[wire.Header, Any]:
    try:
        return wire.decode(data)
    except wire.MalformedMessageError as error:
        if error.fault is not wire.Fault.OTHER_VERSION:
            raise SessionError(f"the Timekeeper's answer: {error}") from error
        raise ProtocolMismatch(
            f"this client's protocol version is {wire.VERSION}, the Timekeeper's is "
            f"{error.version}; use the same warpserve on both sides"
        ) from error


def _refusal(refused: wire.Refused) -> SessionError:
    if refused.code is wire.Refusal.OTHER_VERSION:
        return ProtocolMismatch(refused.text)
    if refused.code is wire.Refusal.WRONG_TOKEN:
        return TokenRefused(refused.text)
    return SessionError(refused.text)

"""A member's connection to the Timekeeper over ZeroMQ (docs/protocol.md)."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Any, TypeVar

import zmq

from warpserve.errors import ProtocolMismatch, SessionEnded, SessionError, TokenRefused
from warpserve.timekeeper import wire
from warpserve.timekeeper.pending import (
    Pending,
    PendingRequest,
    PendingWait,
    Replies,
    Reply,
    map_future,
)
from warpserve.timekeeper.units import MAX_NS, HostDuration, VirtualTime

_T = TypeVar("_T")

_HIGH_WATER = 65_536
_LINGER_MS = 200
_NS_PER_MS = 1_000_000


class Link:
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
        check_name(name)
        self._timeout = timeout
        self._reask_interval_ns = reask_interval.ns
        self._loses_tick = loses_tick
        self._lock = threading.Lock()
        self._outbox: list[wire.Wait | bytes] = []
        self._requests: dict[int, PendingRequest[Any]] = {}
        self._waits: dict[int, PendingWait] = {}
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
        """Raises SessionError where it does not come in time, and what the future does."""
        try:
            return future.result(self._timeout.to_seconds())
        except FutureTimeoutError:
            raise SessionError(
                "the Timekeeper does not answer; see `warpserve status` on its host"
            ) from None

    def ask(
        self, message: wire.Message, expects: type[Reply], *, actor: int = 0
    ) -> Future[Replies[Reply]]:
        """The reply of the type `expects`, or those that a status comes in.

        Raises SessionError where the session has ended.
        """
        request = PendingRequest(message, expects)
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
            wait = self._waits[actor] = PendingWait(wire.Wait(actor, sequence, target_ns))
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

        def finish(replies: Replies[wire.Time]) -> bool:
            _, reply = replies[0]
            self._end_wait(actor, wait.wait.sequence, reply.now_ns)
            return reply.state is wire.WaitState.CANCELLED

        return map_future(self.ask(wire.Cancel(wait.wait.sequence), wire.Time, actor=actor), finish)

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
        with self._lock:
            request = self._requests.get(header.request)
        if request is None:
            return
        try:
            if request.take(header, message):
                self._forget_request(header.request)
                request.future.set_result(request.replies)
        except SessionError as error:
            self._forget_request(header.request)
            request.future.set_exception(error)

    def _forget_request(self, number: int) -> None:
        with self._lock:
            del self._requests[number]

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
            pending: list[Pending[Any]] = [*self._requests.values(), *self._waits.values()]
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


def check_name(name: str) -> None:
    """Of a member or an actor. Raises SessionError."""
    encoded = name.encode("ascii", "replace")
    if len(encoded) >= wire.NAME_BYTES or not name.isascii() or not wire.is_text(encoded):
        raise SessionError(
            f"the name {name!r} must be printable ASCII of at most {wire.NAME_BYTES - 1} characters"
        )

"""The Python API of a session, over ZeroMQ: read the clock, jump, hold, stamp messages.

    with RemoteSession.connect("remote.toml", name="dispatcher") as session:
        gpu = session.add_actor("gpu0")
        gpu.jump(VirtualDuration.from_ms(12))            # blocks
        await gpu.jump_async(VirtualDuration.from_ms(12))  # the same under asyncio

All calls may come from any thread; an actor is for one thread or task at a time, but for cancel().
A call that times out or is cancelled leaves nothing behind: what it is granted late is given back.
Use it in processes that are not members by `warpserve run`, on this host or on others.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from warpserve.errors import InvalidDuration, SessionError
from warpserve.timekeeper import wire
from warpserve.timekeeper.bundle import read_bundle
from warpserve.timekeeper.link import Link, check_name
from warpserve.timekeeper.pending import Replies, map_future
from warpserve.timekeeper.stamped import check_payload, read_stamped, write_stamped
from warpserve.timekeeper.units import MAX_NS, HostDuration, VirtualDuration, VirtualTime
from warpserve.timekeeper.wire import ActorKind

__all__ = ["Accepted", "Actor", "ActorKind", "Hold", "RemoteSession"]

_T = TypeVar("_T")


class RemoteSession:
    """A member's side of a session. Make one with `connect`; leave with `close` or `with`."""

    def __init__(self, link: Link) -> None:
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
        link = Link(
            read_bundle(Path(path)),
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
        """An actor of this process. `order` resolves ties under settle, then creation does.

        Raises SessionError.
        """
        return self._take(self._add_actor(name, kind, order), Actor.remove)

    async def add_actor_async(
        self, name: str, *, kind: ActorKind = ActorKind.ACTOR, order: int = 0
    ) -> Actor:
        return await _take_async(self._add_actor(name, kind, order), Actor.remove)

    def hold(self) -> Hold:
        """Virtual time may not advance until the hold is released, or its `with` block ends.

        Raises SessionError.
        """
        return self._take(self._hold(), Hold.release)

    async def hold_async(self) -> Hold:
        return await _take_async(self._hold(), Hold.release)

    def status(self) -> dict[str, Any]:
        """The session as it stands, as `warpserve status --json` shows it."""
        replies = self._link.result(self._link.ask(wire.Status(), wire.StatusReply))
        status: dict[str, Any] = json.loads(b"".join(reply.chunk for _, reply in replies))
        return status

    def stamp(self, payload: bytes) -> bytes:
        """A message that carries its virtual send time and a hold.

        Until its receiver lets go of it (`accept`) time stands still, so a message in flight is
        never overtaken by time, however long it travels. Raises SessionError.
        """
        return self._take(self._stamp(payload), self._unstamp)

    async def stamp_async(self, payload: bytes) -> bytes:
        return await _take_async(self._stamp(payload), self._unstamp)

    @contextmanager
    def accept(self, message: bytes) -> Iterator[Accepted]:
        """Time stands still in the block: register there what follows from the message.

        Register with `start_jump` or `start_wait`; a jump that blocks in the block would wait for
        itself. A message is for one receiver. Raises SessionError where the bytes are no stamped
        message of this session, or time has passed it because its sender left too early.
        """
        session, sent_at_ns, hold, payload = read_stamped(message)
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
        asked = self._link.ask(wire.Now(), wire.Time)
        return map_future(asked, lambda replies: VirtualTime(replies[0][1].now_ns))

    def _add_actor(self, name: str, kind: ActorKind, order: int) -> Future[Actor]:
        check_name(name)
        asked = self._link.ask(wire.AddActor(kind, order, name), wire.ActorAdded)
        return map_future(asked, lambda replies: Actor(self._link, replies[0][0].actor))

    def _hold(self) -> Future[Hold]:
        asked = self._link.ask(wire.Hold(), wire.Held)
        return map_future(asked, lambda replies: Hold(self._link, replies[0][1].hold))

    def _stamp(self, payload: bytes) -> Future[bytes]:
        check_payload(payload)
        session = self._link.welcome.session

        def write(replies: Replies[wire.Held]) -> bytes:
            _, held = replies[0]
            return write_stamped(session, held.now_ns, held.hold, payload)

        return map_future(self._link.ask(wire.Hold(), wire.Held), write)

    def _unstamp(self, message: bytes) -> None:
        _, _, hold, _ = read_stamped(message)
        self._link.tell(wire.Release(hold))

    def _take(self, grant: Future[_T], give_back: Callable[[_T], None]) -> _T:
        """What is granted; given back where it comes too late for the caller."""
        try:
            return self._link.result(grant)
        except BaseException:
            _once_granted(grant, give_back)
            raise


async def _take_async(grant: Future[_T], give_back: Callable[[_T], None]) -> _T:
    """What is granted; given back where it comes too late for a caller that was cancelled."""
    try:
        return await asyncio.wrap_future(grant)
    except BaseException:
        _once_granted(grant, give_back)
        raise


def _once_granted(grant: Future[_T], give_back: Callable[[_T], None]) -> None:
    """What nobody has taken would keep time still until this member leaves."""

    def finish(done: Future[_T]) -> None:
        if done.exception() is None:
            give_back(done.result())

    grant.add_done_callback(finish)


class Actor:
    """Whoever waits for an instant. The barrier waits for it until it is removed.

    Waits return the virtual time at which they return: at or after the target, or before it
    where another thread has cancelled the wait. They raise InvalidDuration or SessionError.
    """

    def __init__(self, link: Link, number: int) -> None:
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

        False where the wait was over already, or there was none. Raises SessionError.
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

    def __init__(self, link: Link, number: int) -> None:
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

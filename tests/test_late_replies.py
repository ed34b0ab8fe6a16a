"""The Python client against a Timekeeper that answers late, or with something else."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import zmq

from tests import harness
from warpserve.errors import SessionError
from warpserve.timekeeper import wire
from warpserve.timekeeper.remote import Actor, RemoteSession
from warpserve.timekeeper.units import HostDuration, VirtualTime

PATIENCE_MS = 10_000
HOUR_NS = 3_600_000_000_000  # no heartbeats among what is asked
NUMBER = 7  # of the hold or the actor that is granted
GRANTED_AT = VirtualTime.from_ms(5)


class ScriptedTimekeeper:
    """One member's Timekeeper: it answers what a test has it answer, when the test does."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._context = zmq.Context()
        self._requests = self._bound(zmq.ROUTER, "requests")
        self._updates = self._bound(zmq.PUB, "updates")
        self._peer = b""
        bundle = {
            "version": "1",
            "requests": self._address("requests"),
            "updates": self._address("updates"),
            "token": "07" * wire.TOKEN_BYTES,
            "server_public_key": "",
            "client_public_key": "",
            "client_secret_key": "",
        }
        lines = [f"{key} = '{value}'\n" for key, value in bundle.items()]
        (folder / "connection.toml").write_text("".join(lines))

    def _address(self, name: str) -> str:
        return f"ipc://{self._folder}/{name}.ipc"

    def _bound(self, kind: int, name: str) -> zmq.Socket[bytes]:
        socket = self._context.socket(kind)
        socket.bind(self._address(name))
        return socket

    def welcome(self) -> RemoteSession:
        """The session of a member that has just come."""
        exact, barrier = wire.Mode.EXACT, wire.Guard.BARRIER
        with ThreadPoolExecutor(1) as pool:
            connecting = pool.submit(RemoteSession.connect, self._folder, name="m")
            hello = self.asked(wire.Hello)
            self.answer(hello, wire.Welcome(exact, barrier, 0, 0, HOUR_NS, HOUR_NS, bytes(16)))
            return connecting.result()

    def asked(self, kind: type[wire.Body]) -> tuple[wire.Header, Any]:
        """What comes next, which must be of this kind."""
        assert self._requests.poll(PATIENCE_MS), f"no {kind.__name__} came"
        self._peer, data = self._requests.recv_multipart()
        header, message = wire.decode(data)
        assert isinstance(message, kind)
        return header, message

    def answer(
        self, asked: tuple[wire.Header, Any], message: wire.Message, *, actor: int = 0
    ) -> None:
        header = wire.Header(1, actor, asked[0].request)
        self._requests.send_multipart([self._peer, wire.encode(header, message)])

    def close(self) -> None:
        self._context.destroy(linger=0)


@pytest.fixture
def timekeeper() -> Iterator[ScriptedTimekeeper]:
    with harness.short_folder() as folder:
        scripted = ScriptedTimekeeper(folder)
        yield scripted
        scripted.close()


@pytest.fixture
def session(timekeeper: ScriptedTimekeeper) -> Iterator[RemoteSession]:
    with timekeeper.welcome() as session:
        yield session


@dataclass(frozen=True)
class Grant:
    """Something that keeps time still from when it is granted, and how it is given back."""

    call: Callable[[RemoteSession], Any]
    call_async: Callable[[RemoteSession], Awaitable[Any]]
    request: type[wire.Body]
    reply: wire.Message
    given_back: wire.Message

    def is_given_back_to(self, timekeeper: ScriptedTimekeeper) -> bool:
        header, message = timekeeper.asked(type(self.given_back))
        of_actor = isinstance(message, wire.RemoveActor)
        return message == self.given_back and header.actor == (NUMBER if of_actor else 0)


GRANTS = {
    "hold": Grant(
        lambda session: session.hold(),
        lambda session: session.hold_async(),
        wire.Hold,
        wire.Held(NUMBER, GRANTED_AT.ns),
        wire.Release(NUMBER),
    ),
    "stamp": Grant(
        lambda session: session.stamp(b"x"),
        lambda session: session.stamp_async(b"x"),
        wire.Hold,
        wire.Held(NUMBER, GRANTED_AT.ns),
        wire.Release(NUMBER),
    ),
    "actor": Grant(
        lambda session: session.add_actor("a"),
        lambda session: session.add_actor_async("a"),
        wire.AddActor,
        wire.ActorAdded(GRANTED_AT.ns),
        wire.RemoveActor(),
    ),
}


@pytest.fixture(params=GRANTS)
def grant(request: pytest.FixtureRequest) -> Grant:
    return GRANTS[request.param]


# --- Late -----------------------------------------------------------------------------------------


def test_what_is_granted_after_the_time_out_is_given_back(
    timekeeper: ScriptedTimekeeper, session: RemoteSession, grant: Grant
) -> None:
    session._link._timeout = HostDuration.from_ms(20)
    with pytest.raises(SessionError, match="does not answer"):
        grant.call(session)
    timekeeper.answer(timekeeper.asked(grant.request), grant.reply, actor=NUMBER)
    assert grant.is_given_back_to(timekeeper)


@pytest.mark.parametrize("granted", ["before it is cancelled", "after it was cancelled"])
def test_what_is_granted_to_a_cancelled_task_is_given_back(
    timekeeper: ScriptedTimekeeper, session: RemoteSession, grant: Grant, granted: str
) -> None:
    def answer() -> None:
        timekeeper.answer(timekeeper.asked(grant.request), grant.reply, actor=NUMBER)
        harness.eventually(lambda: session.now() == GRANTED_AT, "the reply's arrival")

    async def scenario() -> None:
        task = asyncio.ensure_future(grant.call_async(session))
        await asyncio.sleep(0)
        if granted == "before it is cancelled":
            answer()  # which the event loop has not noticed
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        if granted == "after it was cancelled":
            answer()

    asyncio.run(scenario())
    assert grant.is_given_back_to(timekeeper)


def test_a_refusal_that_comes_late_gives_nothing_back(
    timekeeper: ScriptedTimekeeper, session: RemoteSession, grant: Grant
) -> None:
    session._link._timeout = HostDuration.from_ms(20)
    with pytest.raises(SessionError, match="does not answer"):
        grant.call(session)
    refusal = wire.Error(wire.ErrorCode.TOO_MANY_HOLDS, "no more")
    timekeeper.answer(timekeeper.asked(grant.request), refusal)
    session.close()
    timekeeper.asked(wire.Goodbye)


# --- Something else -------------------------------------------------------------------------------


def test_a_reply_of_another_type_is_said_so(
    timekeeper: ScriptedTimekeeper, session: RemoteSession, grant: Grant
) -> None:
    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(grant.call, session)
        timekeeper.answer(timekeeper.asked(grant.request), wire.StatusReply(0, 2, b"{"))
        name = grant.request.__name__
        with pytest.raises(
            SessionError, match=rf"{name} with StatusReply, not {type(grant.reply).__name__}"
        ):
            call.result()


def test_a_reply_of_another_type_ends_an_asyncio_call(
    timekeeper: ScriptedTimekeeper, session: RemoteSession, grant: Grant
) -> None:
    async def scenario() -> None:
        task = asyncio.ensure_future(grant.call_async(session))
        await asyncio.sleep(0)
        timekeeper.answer(timekeeper.asked(grant.request), wire.StatusReply(0, 1, b"{}"))
        await asyncio.wait_for(task, PATIENCE_MS / 1000)

    with pytest.raises(SessionError, match="with StatusReply"):
        asyncio.run(scenario())


def test_a_cancel_that_is_answered_otherwise_is_said_so(
    timekeeper: ScriptedTimekeeper, session: RemoteSession
) -> None:
    async def scenario() -> None:
        actor = Actor(session._link, NUMBER)
        actor.start_wait(GRANTED_AT)
        timekeeper.asked(wire.WaitUntil)
        task = asyncio.ensure_future(actor.cancel_async())
        await asyncio.sleep(0)
        timekeeper.answer(timekeeper.asked(wire.Cancel), wire.Held(NUMBER, 0), actor=NUMBER)
        await asyncio.wait_for(task, PATIENCE_MS / 1000)

    with pytest.raises(SessionError, match="Cancel with Held, not Time"):
        asyncio.run(scenario())


@pytest.mark.parametrize("payload", ["text", None, 5, [1]])
def test_a_payload_that_is_no_bytes_takes_no_hold(
    timekeeper: ScriptedTimekeeper, session: RemoteSession, payload: Any
) -> None:
    with pytest.raises(TypeError, match=f"not {type(payload).__name__}"):
        session.stamp(payload)
    session.close()
    timekeeper.asked(wire.Goodbye)

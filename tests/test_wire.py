"""The ZeroMQ road: the Python client and hostile peers against the C++ gateway.

The server is tests/native/wire/barrier_server.cpp: a Core under barrier, and the gateway.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
import zmq
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from warpserve.errors import (
    InvalidDuration,
    ProtocolMismatch,
    SessionEnded,
    SessionError,
    TokenRefused,
    WarpserveError,
)
from warpserve.timekeeper import wire
from warpserve.timekeeper.remote import Actor, ActorKind, RemoteSession
from warpserve.timekeeper.units import (
    MAX_NS,
    HostDuration,
    HostTime,
    VirtualDuration,
    VirtualTime,
)

ROOT = Path(__file__).parent.parent
TOKEN = bytes([7] * wire.TOKEN_BYTES)
PATIENCE_S = 10.0


def at_ms(ms: float) -> VirtualTime:
    return VirtualTime.from_ms(ms)


def for_ms(ms: float) -> VirtualDuration:
    return VirtualDuration.from_ms(ms)


def barrier_server() -> Path:
    named = os.environ.get("WARPSERVE_BARRIER_SERVER")
    path = Path(named) if named else ROOT / "build/release/tests/native/wire/barrier_server"
    if not path.exists():
        pytest.fail(f"{path} is missing; build the native tests first: `make test` does")
    return path


def libzmq() -> Path:
    return next((Path(zmq.__file__).parent.parent / "pyzmq.libs").glob("libzmq*"))


class Server:
    """A test server as a process, and the lines that it says."""

    def __init__(self, folder: Path, *options: str, prefix: tuple[str, ...] = ()) -> None:
        self.folder = folder
        self.lines: list[str] = []
        self._said = threading.Condition()
        self._process = subprocess.Popen(
            [*prefix, barrier_server(), folder, *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "WARPSERVE_LIBZMQ": str(libzmq())},
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        first = self.wait_for("READY", "ERROR")
        if first.startswith("ERROR"):
            self.stop()
            raise RuntimeError(first)

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with self._said:
                self.lines.append(line.strip())
                self._said.notify_all()

    def wait_for(self, *starts: str) -> str:
        """The first line that begins with one of `starts`."""

        def found() -> str | None:
            return next((line for line in self.lines if line.startswith(starts)), None)

        with self._said:
            assert self._said.wait_for(lambda: found() is not None, PATIENCE_S), (
                f"the server never said {starts}, only {self.lines}"
            )
            line = found()
            assert line is not None
            return line

    def resident_kib(self) -> int:
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0])

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def stop(self) -> int:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        code = self._process.wait(PATIENCE_S)
        self._reader.join()
        assert self._process.stdout is not None
        self._process.stdout.close()
        return code


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Server]]:
    servers: list[Server] = []

    def start_server(*options: str, prefix: tuple[str, ...] = ()) -> Server:
        servers.append(Server(tmp_path, *options, prefix=prefix))
        return servers[-1]

    yield start_server
    for server in servers:
        server.stop()


@pytest.fixture
def server(start: Callable[..., Server]) -> Server:
    return start()


def connect(server: Server, name: str = "m", **options: Any) -> RemoteSession:
    return RemoteSession.connect(server.folder, name=name, **options)


class RawPeer:
    """A socket without a client: says whatever it is told to."""

    def __init__(self, folder: Path) -> None:
        self.context = zmq.Context()
        self.socket = self.context.socket(zmq.DEALER)
        self.socket.connect(f"ipc://{folder}/requests.ipc")

    def __enter__(self) -> RawPeer:
        return self

    def __exit__(self, *_: object) -> None:
        self.context.destroy(linger=0)

    def ask(self, data: bytes | list[bytes]) -> tuple[wire.Header, Any]:
        self.socket.send_multipart(data if isinstance(data, list) else [data])
        return self.answer()

    def answer(self) -> tuple[wire.Header, Any]:
        assert self.socket.poll(int(PATIENCE_S * 1000)), "the Timekeeper does not answer"
        return wire.decode(self.socket.recv())

    def join(self) -> int:
        header, welcome = self.ask(wire.encode(wire.Header(), wire.Hello(TOKEN, 0, "raw")))
        assert isinstance(welcome, wire.Welcome)
        return header.member


# --- Waiting --------------------------------------------------------------------------------------


def test_a_lone_jump_returns_exactly_at_its_target(server: Server) -> None:
    with connect(server) as session:
        actor = session.add_actor("a")
        assert actor.jump(for_ms(12)) == at_ms(12)
        assert session.now() == session.ask_now() == at_ms(12)


def test_targets_50_and_10(server: Server) -> None:
    with connect(server, "one") as one, connect(server, "two") as two:
        slow, quick = one.add_actor("slow"), two.add_actor("quick")
        slow_wait = slow.start_wait(at_ms(50))
        assert quick.wait_until(at_ms(10)) == at_ms(10)
        assert not slow_wait.done()
        quick_wait = quick.start_wait(at_ms(60))
        assert slow_wait.result(PATIENCE_S) == at_ms(50)
        slow.start_wait(at_ms(60))
        assert quick_wait.result(PATIENCE_S) == at_ms(60)


def test_a_request_at_200_ms_while_another_actor_runs_until_500_ms(server: Server) -> None:
    with connect(server, "client") as clients, connect(server, "server") as servers:
        dispatcher, gpu = clients.add_actor("dispatcher"), servers.add_actor("gpu")
        running = gpu.start_wait(at_ms(500))
        assert dispatcher.jump(for_ms(200)) == at_ms(200)
        message = clients.stamp(b"request")
        dispatcher.start_wait(at_ms(1000))
        with servers.accept(message) as request:
            assert (request.sent_at, request.payload) == (at_ms(200), b"request")
            assert servers.now() == servers.ask_now() == at_ms(200)
            assert not running.done()
        assert running.result(PATIENCE_S) == at_ms(500)


def test_asyncio_actors_run_beside_each_other(server: Server) -> None:
    async def actor_log(actor: Actor, step_ms: int) -> list[VirtualTime]:
        times = [await actor.jump_async(for_ms(step_ms)) for _ in range(5)]
        actor.remove()
        return times

    async def scenario(session: RemoteSession) -> list[list[VirtualTime]]:
        hold = await session.hold_async()
        actors = [await session.add_actor_async(f"a{i}") for i in range(3)]
        logs = [asyncio.ensure_future(actor_log(actor, i + 2)) for i, actor in enumerate(actors)]
        hold.release()
        return await asyncio.gather(*logs)

    with connect(server) as session:
        logs = asyncio.run(scenario(session))
    assert logs == [[at_ms(step * (n + 1)) for n in range(5)] for step in (2, 3, 4)]


def test_a_cancelled_task_takes_its_wait_with_it(server: Server) -> None:
    async def scenario(session: RemoteSession) -> VirtualTime:
        actor, other = session.add_actor("a"), session.add_actor("b")
        task = asyncio.ensure_future(actor.jump_async(for_ms(1)))
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        other.start_wait(at_ms(3))
        await asyncio.sleep(0.05)
        assert await session.ask_now_async() == at_ms(0)
        return await actor.wait_until_async(at_ms(3))

    with connect(server) as session:
        assert asyncio.run(scenario(session)) == at_ms(3)


def test_cancel_ends_the_wait_where_time_stands(server: Server) -> None:
    with connect(server) as session:
        other, actor = session.add_actor("other"), session.add_actor("actor")
        wait = actor.start_wait(at_ms(500))
        assert other.jump(for_ms(20)) == at_ms(20)
        assert actor.cancel()
        assert wait.result(PATIENCE_S) == at_ms(20)
        assert not actor.cancel()


def test_cancel_async_ends_the_wait_where_time_stands(server: Server) -> None:
    async def scenario(session: RemoteSession) -> None:
        other, actor = session.add_actor("other"), session.add_actor("actor")
        waiting = asyncio.ensure_future(actor.jump_async(for_ms(500)))
        await other.jump_async(for_ms(20))
        assert await actor.cancel_async()
        assert await waiting == at_ms(20)
        assert not await actor.cancel_async()
        other.start_wait(at_ms(30))
        await asyncio.sleep(0.05)
        assert await session.ask_now_async() == at_ms(20)

    with connect(server) as session:
        asyncio.run(scenario(session))


def test_stamp_async_keeps_time_still_until_the_message_is_accepted(server: Server) -> None:
    async def scenario(sender: RemoteSession, receiver: RemoteSession) -> None:
        actor = sender.add_actor("a")
        await actor.jump_async(for_ms(5))
        message = await sender.stamp_async(b"payload")
        wait = actor.start_jump(for_ms(10))
        await asyncio.sleep(0.05)
        assert await sender.ask_now_async() == at_ms(5)
        with receiver.accept(message) as accepted:
            assert (accepted.sent_at, accepted.payload) == (at_ms(5), b"payload")
        assert wait.result(PATIENCE_S) == at_ms(15)

    with connect(server, "sender") as sender, connect(server, "receiver") as receiver:
        asyncio.run(scenario(sender, receiver))


def test_a_cancelled_task_takes_its_hold_and_its_actor_with_it(server: Server) -> None:
    async def scenario(session: RemoteSession) -> VirtualTime:
        actor = session.add_actor("a")
        calls = [session.hold_async(), session.stamp_async(b""), session.add_actor_async("b")]
        tasks = [asyncio.ensure_future(call) for call in calls]
        await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        assert all(task.cancelled() for task in tasks)
        return await asyncio.wait_for(actor.jump_async(for_ms(1)), PATIENCE_S)

    with connect(server) as session:
        assert asyncio.run(scenario(session)) == at_ms(1)


def test_an_observer_is_not_waited_for(server: Server) -> None:
    with connect(server) as session:
        session.add_actor("o", kind=ActorKind.OBSERVER)
        assert session.add_actor("a").jump(for_ms(5)) == at_ms(5)


def test_a_hold_keeps_time_from_advancing(server: Server) -> None:
    with connect(server) as session:
        actor = session.add_actor("a")
        with session.hold():
            wait = actor.start_jump(for_ms(10))
            time.sleep(0.05)
            assert session.ask_now() == at_ms(0)
        assert wait.result(PATIENCE_S) == at_ms(10)


def test_lost_broadcasts_cost_speed_only(server: Server) -> None:
    chance = random.Random(1)
    with connect(
        server,
        reask_interval=HostDuration.from_ms(5),
        loses_tick=lambda _tick: chance.random() < 0.8,
    ) as session:
        actor = session.add_actor("a")
        for n in range(1, 20):
            assert actor.jump(for_ms(3)) == at_ms(3 * n)


def test_in_live_mode_host_time_carries_a_wait(start: Callable[..., Server]) -> None:
    server = start("mode=live")
    with connect(server, loses_tick=lambda _tick: True) as session:
        session.add_actor("busy")
        actor = session.add_actor("a")
        target = session.now() + for_ms(20)
        before = time.monotonic()
        assert actor.wait_until(target) >= target
        assert time.monotonic() - before > 0.018


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_delivery_jitter_changes_no_timestamp(server: Server, seed: int) -> None:
    """Requests every 10 ms, 4 ms of work each, and a random while on the road."""
    chance = random.Random(seed)
    done: list[VirtualTime] = []

    def deliver(message: bytes, jitter_s: float) -> None:
        time.sleep(jitter_s)
        with servers.accept(message):
            work = servers.add_actor("work")
            wait = work.start_jump(for_ms(4))
        done.append(wait.result(PATIENCE_S))
        work.remove()

    with connect(server, "client") as clients, connect(server, "server") as servers:
        dispatcher = clients.add_actor("dispatcher")
        threads = []
        for _ in range(10):
            dispatcher.jump(for_ms(10))
            arguments = (clients.stamp(b""), chance.random() * 0.003)
            threads.append(threading.Thread(target=deliver, args=arguments))
            threads[-1].start()
        dispatcher.remove()
        for thread in threads:
            thread.join()
    assert sorted(done) == [at_ms(10 * n + 4) for n in range(1, 11)]


def test_a_stamp_of_another_session_or_none_is_refused(server: Server) -> None:
    with connect(server) as session:
        message = session.stamp(b"x")
        for wrong in (b"", b"x" * 50, message + b"y", message[:-2], message[:24] + b"\1" * 17):
            with pytest.raises(SessionError), session.accept(wrong):
                pytest.fail("accepted")


def test_a_message_that_time_has_passed_is_refused(server: Server) -> None:
    with connect(server, "receiver") as receiver:
        with connect(server, "sender") as sender:
            message = sender.stamp(b"")
        server.wait_for("LEFT sender")
        receiver.add_actor("a").jump(for_ms(1))
        with pytest.raises(SessionError, match="time has passed"), receiver.accept(message):
            pytest.fail("accepted")


def test_a_message_is_for_one_receiver(server: Server) -> None:
    with connect(server) as session:
        message = session.stamp(b"")
        idle = session.add_actor("keeps time still").start_wait(at_ms(9))
        session.add_actor("idle")
        for _ in range(2):
            with session.accept(message):
                pass
        assert "no such hold" in str(idle.exception(PATIENCE_S))


# --- Durations ------------------------------------------------------------------------------------


def test_impossible_durations_are_refused(server: Server) -> None:
    for make in (VirtualDuration, VirtualTime, HostDuration, HostTime):
        for seconds in (-0.5, math.nan, math.inf, -math.inf, 1e30):
            with pytest.raises(InvalidDuration):
                make.from_seconds(seconds)
        with pytest.raises(ValueError, match="outside"):
            make.from_ns(MAX_NS + 1)
    with connect(server) as session:
        actor = session.add_actor("a")
        actor.jump(for_ms(1))
        with pytest.raises(InvalidDuration):
            actor.jump(VirtualDuration.from_ns(MAX_NS))
        assert actor.jump(VirtualDuration.from_ns(0)) == at_ms(1)
        with pytest.raises(TypeError):
            actor.jump(0.5)  # type: ignore[arg-type]
        with pytest.raises(TypeError):
            actor.wait_until(HostTime.from_ms(5))  # type: ignore[arg-type]


def test_virtual_and_host_time_do_not_mix() -> None:
    mixtures: list[Callable[[], object]] = [
        lambda: VirtualTime(1) + HostDuration(1),  # type: ignore[operator]
        lambda: VirtualTime(1) - HostTime(1),  # type: ignore[operator]
        lambda: VirtualTime(1) + VirtualTime(1),  # type: ignore[operator]
        lambda: VirtualDuration(1) + HostDuration(1),  # type: ignore[operator]
        lambda: VirtualTime(1) < HostTime(1),  # type: ignore[operator]
        lambda: VirtualTime(1) + 1,  # type: ignore[operator]
        lambda: VirtualDuration(1) * 1.5,  # type: ignore[operator]
    ]
    for mixture in mixtures:
        with pytest.raises(TypeError):
            mixture()
    instants: list[object] = [VirtualTime(1), HostTime(1)]
    assert instants[0] != instants[1]
    assert VirtualTime(5) - VirtualTime(2) == VirtualDuration(3)
    assert HostTime(5) - HostDuration(2) == HostTime(3)
    with pytest.raises(InvalidDuration):
        VirtualTime(1) - VirtualTime(2)


def test_a_task_cancelled_after_the_end_is_simply_cancelled() -> None:
    class EndedLink:
        def start_wait(self, _actor: int, _target_ns: int) -> Future[VirtualTime]:
            return Future()

        def cancel(self, _actor: int) -> None:
            raise SessionEnded("over")

    async def cancel_a_wait() -> None:
        actor = Actor(EndedLink(), 1)  # type: ignore[arg-type]
        task = asyncio.ensure_future(actor.wait_until_async(at_ms(1)))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel_a_wait())


# --- Who may come in ------------------------------------------------------------------------------


def test_a_wrong_token_is_refused(server: Server) -> None:
    bundle = (server.folder / "connection.toml").read_text()
    wrong = server.folder / "wrong.toml"
    wrong.write_text(bundle.replace(TOKEN.hex(), "00" * wire.TOKEN_BYTES))
    with pytest.raises(TokenRefused, match="token"):
        RemoteSession.connect(wrong, name="m")


def test_another_version_is_refused_with_both_named(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    with RawPeer(server.folder) as peer:
        hello = bytearray(wire.encode(wire.Header(), wire.Hello(TOKEN, 0, "m")))
        hello[4] = 9
        _, refused = peer.ask(bytes(hello))
    assert (refused.code, refused.your_version, refused.our_version) == (
        wire.Refusal.OTHER_VERSION,
        9,
        wire.VERSION,
    )
    assert "9" in refused.text
    monkeypatch.setattr(wire, "VERSION", 8)
    with pytest.raises(ProtocolMismatch, match=r"version is 8.* is 1"):
        connect(server)


@pytest.mark.parametrize("token", ["", "07" * 31, "07" * 31 + "0g", "07" * 33])
def test_a_damaged_token_is_said_so(server: Server, token: str) -> None:
    damaged = server.folder / "damaged.toml"
    bundle = (server.folder / "connection.toml").read_text()
    damaged.write_text(bundle.replace(TOKEN.hex(), token))
    with pytest.raises(SessionError, match=r"the token in .* is damaged"):
        RemoteSession.connect(damaged, name="m")


def test_no_session_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(SessionError, match="is the session running"):
        RemoteSession.connect(tmp_path, name="m")


def test_files_are_private(start: Callable[..., Server]) -> None:
    server = start("listen=tcp://127.0.0.1:*")
    for name in ("connection.toml", "remote.toml", "lock"):
        assert (server.folder / name).stat().st_mode & 0o077 == 0


def test_a_second_timekeeper_on_the_session_is_refused(start: Callable[..., Server]) -> None:
    start()
    with pytest.raises(RuntimeError, match="another Timekeeper"):
        start()


def test_the_network_needs_the_session_keys(start: Callable[..., Server]) -> None:
    server = start("listen=tcp://127.0.0.1:*")
    remote = server.folder / "remote.toml"
    with RemoteSession.connect(remote, name="far") as session:
        assert session.add_actor("a").jump(for_ms(2)) == at_ms(2)
    public, secret = zmq.curve_keypair()
    lines = remote.read_text().splitlines()
    stranger = [
        f"client_public_key = '{public.decode()}'"
        if line.startswith("client_public_key")
        else f"client_secret_key = '{secret.decode()}'"
        if line.startswith("client_secret_key")
        else line
        for line in lines
    ]
    plain = [line.split("=")[0] + "= ''" if "_key" in line else line for line in lines]
    for name, content in (("stranger.toml", stranger), ("plain.toml", plain)):
        bundle = server.folder / name
        bundle.write_text("\n".join(content))
        with pytest.raises(SessionError, match=r"no Timekeeper answers|does not answer"):
            RemoteSession.connect(bundle, name="m", timeout=HostDuration.from_ms(300))


# --- What may be sent -----------------------------------------------------------------------------


def test_strangers_and_impostors_are_told_so(server: Server) -> None:
    with RawPeer(server.folder) as peer:
        _, error = peer.ask(wire.encode(wire.Header(1), wire.Hold()))
        assert error.code is wire.ErrorCode.NOT_A_MEMBER
        member = peer.join()
        _, error = peer.ask(wire.encode(wire.Header(member + 1), wire.Hold()))
        assert error.code is wire.ErrorCode.NOT_A_MEMBER
        _, error = peer.ask(wire.encode(wire.Header(member), wire.Hello(TOKEN, 0, "again")))
        assert error.code is wire.ErrorCode.UNEXPECTED
        _, error = peer.ask(wire.encode(wire.Header(member), wire.Tick(1, 1, 0, 0)))
        assert error.code is wire.ErrorCode.UNEXPECTED
        _, error = peer.ask([wire.encode(wire.Header(member), wire.Hold()), b"more"])
        assert error.code is wire.ErrorCode.MALFORMED


def test_an_actor_belongs_to_its_member(server: Server) -> None:
    with connect(server) as session, RawPeer(server.folder) as peer:
        actor = session.add_actor("a")
        member = peer.join()
        waits = (wire.Wait(actor._number, 1, 5),)
        for message in (wire.WaitUntil(waits), wire.Cancel(1), wire.RemoveActor()):
            _, error = peer.ask(wire.encode(wire.Header(member, actor._number), message))
            assert error.code is wire.ErrorCode.UNKNOWN_ACTOR
        _, error = peer.ask(wire.encode(wire.Header(member), wire.Release(12345)))
        assert error.code is wire.ErrorCode.UNKNOWN_HOLD
        assert actor.jump(for_ms(1)) == at_ms(1)


def test_stale_sequences_and_states_of_a_wait(server: Server) -> None:
    with RawPeer(server.folder) as peer:
        member = peer.join()

        def send(message: wire.Message, actor: int = 0) -> None:
            peer.socket.send(wire.encode(wire.Header(member, actor, 5), message))

        send(wire.AddActor(ActorKind.ACTOR, 0, "a"))
        actor = peer.answer()[0].actor
        send(wire.AddActor(ActorKind.ACTOR, 0, "keeps time still"))
        peer.answer()
        send(wire.WaitUntil((wire.Wait(actor, 3, 100),)))
        send(wire.Now(3), actor)
        assert peer.answer()[1].state is wire.WaitState.PENDING
        send(wire.Now(2), actor)
        assert peer.answer()[1].state is wire.WaitState.OVER
        send(wire.WaitUntil((wire.Wait(actor, 3, 50),)))
        assert peer.answer()[1].code is wire.ErrorCode.STALE_SEQUENCE
        send(wire.Cancel(2), actor)
        assert peer.answer()[1].state is wire.WaitState.OVER
        send(wire.Cancel(3), actor)
        assert peer.answer()[1].state is wire.WaitState.CANCELLED
        send(wire.Cancel(3), actor)
        assert peer.answer()[1].state is wire.WaitState.OVER


def test_limits_are_kept(start: Callable[..., Server]) -> None:
    server = start("members=2", "actors=3", "holds=2")
    with connect(server) as session, connect(server):
        with pytest.raises(SessionError, match="all the members"):
            connect(server)
        actors = [session.add_actor(f"a{i}") for i in range(3)]
        with pytest.raises(SessionError, match="all the actors"):
            session.add_actor("one too many")
        actors[0].remove()
        session.add_actor("in its place")
        holds = [session.hold(), session.hold()]
        with pytest.raises(SessionError, match="all the holds"):
            session.hold()
        holds[0].release()
        session.hold()
    server.wait_for("LEFT")
    connect(server).close()


def test_a_flood_neither_grows_nor_blocks_the_timekeeper(start: Callable[..., Server]) -> None:
    server = start("queued=64")
    with RawPeer(server.folder) as peer, connect(server, "well-behaved") as session:
        actor = session.add_actor("a")
        member = peer.join()
        before_kib = server.resident_kib()
        flood = wire.encode(wire.Header(member), wire.Status())
        refused = 0
        for _ in range(30_000):
            with contextlib.suppress(zmq.Again):
                peer.socket.send(flood, zmq.NOBLOCK)
        for n in range(1, 4):
            assert actor.jump(for_ms(1)) == at_ms(n)
        while peer.socket.poll(200):
            _, answer = wire.decode(peer.socket.recv())
            refused += isinstance(answer, wire.Error)
        assert actor.jump(for_ms(1)) == at_ms(4)
        assert server.resident_kib() - before_kib < 64 * 1024


def test_a_message_that_is_too_large_costs_only_its_sender(server: Server) -> None:
    with RawPeer(server.folder) as peer, connect(server) as session:
        peer.socket.send(b"x" * (wire.MAX_MESSAGE_BYTES + 1))
        assert session.add_actor("a").jump(for_ms(1)) == at_ms(1)


def header_strategy() -> st.SearchStrategy[wire.Header]:
    u32 = st.integers(0, 2**32 - 1)
    return st.builds(wire.Header, u32, u32, st.integers(0, 2**64 - 1))


def message_strategy() -> st.SearchStrategy[Any]:
    u32, u64 = st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1)
    time_ns = st.integers(0, MAX_NS)
    text = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), max_size=63)
    waits = st.lists(
        st.builds(wire.Wait, st.integers(1, 2**32 - 1), st.integers(1, 2**64 - 1), time_ns),
        max_size=5,
    ).map(tuple)
    octets = st.binary(min_size=32, max_size=32)
    return st.one_of(
        st.builds(wire.Hello, octets, u32, text),
        st.builds(
            wire.Welcome,
            st.sampled_from(wire.Mode),
            st.sampled_from(wire.Guard),
            time_ns,
            st.integers(-(2**63), 2**63 - 1),
            time_ns,
            time_ns,
            octets.map(lambda token: token[:16]),
        ),
        st.builds(wire.Refused, st.sampled_from(wire.Refusal), u32, u32, text),
        st.builds(wire.AddActor, st.sampled_from(ActorKind), u64, text),
        st.builds(wire.ActorAdded, time_ns),
        st.builds(wire.WaitUntil, waits),
        st.builds(wire.Cancel, u64),
        st.builds(wire.Held, u32, time_ns),
        st.builds(wire.Release, u32),
        st.builds(wire.Now, u64),
        st.builds(wire.Time, time_ns, u64, st.sampled_from(wire.WaitState)),
        st.builds(wire.StatusReply, u32, u32, st.binary(max_size=50)),
        st.builds(wire.Error, st.sampled_from(wire.ErrorCode), text),
        st.builds(wire.Tick, u64, time_ns, u32, u32),
        *(st.just(kind()) for kind in (wire.RemoveActor, wire.Hold, wire.Heartbeat, wire.Status)),
    )


@given(header_strategy(), message_strategy())
def test_every_message_survives_a_round_trip(header: wire.Header, message: Any) -> None:
    assert wire.decode(wire.encode(header, message)) == (header, message)


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, RawPeer]]:
    server = Server(tmp_path_factory.mktemp("fuzzed"))
    with RawPeer(server.folder) as peer:
        yield server, peer
    assert server.stop() == 0


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    message=st.builds(wire.encode, header_strategy(), message_strategy()),
    edits=st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), max_size=3),
    cut=st.one_of(st.none(), st.integers(0, 400)),
    tail=st.binary(max_size=3),
)
def test_fuzzed_messages_get_the_error_that_they_deserve(
    fuzzed: tuple[Server, RawPeer],
    message: bytes,
    edits: list[tuple[int, int]],
    cut: int | None,
    tail: bytes,
) -> None:
    """Both codecs name the same fault; the gateway answers and lives on."""
    _, peer = fuzzed
    data = bytearray(message[:cut])
    for position, value in edits:
        if data:
            data[position % len(data)] = value
    data += tail
    expected = expected_answer(bytes(data))
    if expected is not None:
        assert peer.ask(bytes(data))[1] == expected


def expected_answer(data: bytes) -> wire.Message | None:
    """What a stranger is told who sends these bytes; nothing for a goodbye."""
    try:
        _, message = wire.decode(data)
    except wire.MalformedMessageError as error:
        if error.fault is not wire.Fault.OTHER_VERSION:
            return wire.Error(wire.ErrorCode.MALFORMED, error.fault.value)
        text = (
            f"your protocol version is {error.version}, the Timekeeper's is {wire.VERSION}; "
            "use the same warpserve on both sides"
        )
        return wire.Refused(wire.Refusal.OTHER_VERSION, error.version, wire.VERSION, text)
    if isinstance(message, wire.Goodbye):
        return None
    if isinstance(message, wire.Hello):
        text = "the token is not this session's; copy the connection file again"
        return wire.Refused(wire.Refusal.WRONG_TOKEN, wire.VERSION, wire.VERSION, text)
    return wire.Error(wire.ErrorCode.NOT_A_MEMBER, "not a member (any more): say hello first")


# --- Deaths ---------------------------------------------------------------------------------------

MEMBER = """
import sys, time
sys.path.insert(0, sys.argv[1])
from warpserve.timekeeper.remote import RemoteSession
from warpserve.timekeeper.units import VirtualTime
session = RemoteSession.connect(sys.argv[2], name="victim")
actor = session.add_actor("v") if sys.argv[3] != "joined" else None
if sys.argv[3] == "waiting":
    actor.start_wait(VirtualTime.from_ms(1))
    session.ask_now()
if sys.argv[3] == "holding":
    actor.start_wait(VirtualTime.from_seconds(9))
    session.hold()
if sys.argv[3] == "stamped":
    actor.start_wait(VirtualTime.from_seconds(9))
    session.stamp(b"never delivered")
print("in state", flush=True)
while True:
    session.ask_now()
    time.sleep(0.05)
"""


@contextlib.contextmanager
def victim(bundle: Path, state: str, *prefix: str) -> Iterator[subprocess.Popen[str]]:
    command = [*prefix, sys.executable, "-c", MEMBER, str(ROOT), str(bundle), state]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "in state\n"
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("state", ["joined", "idle", "waiting", "holding", "stamped"])
def test_a_killed_member_is_named_and_its_targets_go_with_it(server: Server, state: str) -> None:
    with connect(server) as session:
        actor = session.add_actor("survivor")
        keeper = session.hold()
        with victim(server.folder, state) as process:
            wait = actor.start_wait(at_ms(50))
            keeper.release()
            process.send_signal(signal.SIGKILL)
            assert "victim: its process has died" in server.wait_for("DIED")
            assert wait.result(PATIENCE_S) == at_ms(50)


def test_a_stopped_local_member_is_waited_for_and_goes_on(start: Callable[..., Server]) -> None:
    server = start("heartbeat_ms=100", "silence_ms=2000")
    with connect(server) as session, victim(server.folder, "idle") as process:
        process.send_signal(signal.SIGSTOP)
        wait = session.add_actor("a").start_wait(at_ms(1))
        time.sleep(2.5)
        assert session.ask_now() == at_ms(0)
        assert not wait.done()
        process.send_signal(signal.SIGCONT)
        time.sleep(0.3)
        assert process.poll() is None
        assert not any(line.startswith("DIED") for line in server.lines)


def test_a_silent_remote_member_is_dead(start: Callable[..., Server]) -> None:
    server = start("listen=tcp://127.0.0.1:*", "heartbeat_ms=100", "silence_ms=2000")
    with connect(server) as session, victim(server.folder / "remote.toml", "idle") as process:
        time.sleep(2.5)
        assert not any(line.startswith("DIED") for line in server.lines)
        wait = session.add_actor("a").start_wait(at_ms(1))
        process.send_signal(signal.SIGSTOP)
        assert "victim: nothing heard" in server.wait_for("DIED")
        assert wait.result(PATIENCE_S) == at_ms(1)


def test_the_end_of_the_session_ends_every_wait(server: Server) -> None:
    session = connect(server)
    session.add_actor("idle")
    wait = session.add_actor("a").start_wait(at_ms(1))
    server.stop()
    assert isinstance(wait.exception(PATIENCE_S), SessionEnded)
    with pytest.raises(SessionEnded):
        session.add_actor("late")
    session.close()


def test_a_killed_timekeeper_ends_every_wait(start: Callable[..., Server]) -> None:
    server = start("heartbeat_ms=100", "silence_ms=500")
    session = connect(server)
    session.add_actor("idle")
    wait = session.add_actor("a").start_wait(at_ms(1))
    server.kill()
    assert isinstance(wait.exception(PATIENCE_S), WarpserveError)
    session.close()


# --- Two hosts ------------------------------------------------------------------------------------


def run_ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)


@pytest.fixture
def two_hosts() -> Iterator[tuple[str, str]]:
    """Two network namespaces joined by a veth pair: 10.77.0.1 and 10.77.0.2."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("two network namespaces need root and iproute2 (apt-get install iproute2)")
    here, there = f"wrp-a{os.getpid()}", f"wrp-b{os.getpid()}"
    made: list[str] = []
    try:
        for name in (here, there):
            try:
                run_ip("netns", "add", name)
            except subprocess.CalledProcessError as error:
                pytest.skip(f"this machine makes no network namespaces: {error.stderr.strip()}")
            made.append(name)
        try:
            run_ip("link", "add", "wrp0", "netns", here, "type", "veth", "peer", "name", "wrp1",
                   "netns", there)  # fmt: skip
        except subprocess.CalledProcessError as error:
            pytest.skip(f"this machine makes no veth pairs: {error.stderr.strip()}")
        for name, link, address in ((here, "wrp0", "10.77.0.1"), (there, "wrp1", "10.77.0.2")):
            run_ip("-n", name, "address", "add", f"{address}/24", "dev", link)
            run_ip("-n", name, "link", "set", link, "up")
        yield here, there
    finally:
        for name in made:
            run_ip("netns", "delete", name)


REMOTE_HOST = """
import sys
sys.path.insert(0, sys.argv[1])
from warpserve.timekeeper.remote import RemoteSession
from warpserve.timekeeper.units import VirtualDuration
with RemoteSession.connect(sys.argv[2], name="far") as session:
    hold = session.hold()
    actor = session.add_actor("far")
    print("joined", flush=True)
    sys.stdin.readline()
    hold.release()
    print([actor.jump(VirtualDuration.from_ms(3)).ns for _ in range(10)], flush=True)
    actor.remove()
    sys.stdin.readline()
"""


def test_two_hosts_share_one_clock(
    start: Callable[..., Server], two_hosts: tuple[str, str], tmp_path: Path
) -> None:
    here, there = two_hosts
    server = start("listen=tcp://10.77.0.1:*", prefix=("ip", "netns", "exec", here))
    copied = tmp_path / "copied.toml"
    shutil.copy(server.folder / "remote.toml", copied)
    enter = ["ip", "netns", "exec", there]
    command = [*enter, sys.executable, "-c", REMOTE_HOST, str(ROOT), str(copied)]
    with (
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as far,
        connect(server, "near") as session,
    ):
        assert far.stdin is not None
        assert far.stdout is not None
        assert far.stdout.readline() == "joined\n"
        near = session.add_actor("near")
        far.stdin.write("\n")
        far.stdin.flush()
        near_times = [near.jump(for_ms(5)).ns for _ in range(6)]
        near.remove()
        assert near_times == [n * 5_000_000 for n in range(1, 7)]
        assert far.stdout.readline() == f"{[n * 3_000_000 for n in range(1, 11)]}\n"
        far.stdin.close()

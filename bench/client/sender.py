"""Sends requests at their times: arrivals, turns of sessions, slots of a closed loop."""

from __future__ import annotations

import asyncio
import heapq
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from warpserve.bench.client.requests import NOT_SENT
from warpserve.bench.client.server import Answer

Send = Callable[[int], Awaitable[Answer]]
_APART_NS = 1


@dataclass(frozen=True)
class Timing:
    """When a request is due: ``after_s`` from the start, or from the end of ``follows``' answer."""

    after_s: float
    follows: int | None = None


def timings(times: Sequence[tuple[float | None, str | None, float]]) -> list[Timing]:
    """From arrival, session and think time of each request, in the order of the file."""
    last_turn: dict[str, int] = {}
    found = []
    for index, (arrival_s, session, think_s) in enumerate(times):
        if arrival_s is not None:
            found.append(Timing(arrival_s))
        else:
            found.append(Timing(think_s, last_turn[session or ""]))
        if session is not None:
            last_turn[session] = index
    return found


class Sender:
    """Sends each request once, the earliest first, while at most ``max_concurrency`` are under way.

    What happens at one instant has no order of its own (a step ends, two requests come), so request
    i is sent i nanoseconds after it is due: none meets another, and runs repeat exactly.
    """

    def __init__(self, send: Send, due: Sequence[Timing], max_concurrency: int | None) -> None:
        """``send``: what it raises ends the run."""
        self._send = send
        self._timings = due
        self._limit = max_concurrency or len(due)
        self._followers = {t.follows: i for i, t in enumerate(due) if t.follows is not None}
        self._answers: dict[int, Answer] = {}
        self._due: list[tuple[int, int]] = []
        self._under_way: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Event()
        self._failure: BaseException | None = None

    async def run(self) -> list[Answer]:
        """The answers, in the order of the requests; those of turns that could not be sent have an
        error that says so."""
        start_ns = time.monotonic_ns()
        for index, timing in enumerate(self._timings):
            if timing.follows is None:
                self._add(index, start_ns)
        while self._due or self._under_way:
            await self._until_one_is_due()
            if self._failure is not None:
                raise self._failure
            if self._due and len(self._under_way) < self._limit and self._left_ns() <= 0:
                _, index = heapq.heappop(self._due)
                task = asyncio.create_task(self._ask(index))
                self._under_way.add(task)
                task.add_done_callback(self._end)
                await asyncio.sleep(_APART_NS / 1e9)
        return [self._answers[index] for index in range(len(self._timings))]

    async def _until_one_is_due(self) -> None:
        """Or until an answer has come, which may make another one due."""
        self._changed.clear()
        if len(self._under_way) >= self._limit or not self._due:
            await self._changed.wait()
        elif (left_ns := self._left_ns()) > 0:
            timer = asyncio.get_running_loop().call_later(left_ns / 1e9, self._changed.set)
            await self._changed.wait()
            timer.cancel()

    def _left_ns(self) -> int:
        return self._due[0][0] - time.monotonic_ns()

    def _add(self, index: int, from_ns: int) -> None:
        due_ns = from_ns + round(self._timings[index].after_s * 1e9) + index * _APART_NS
        heapq.heappush(self._due, (due_ns, index))

    async def _ask(self, index: int) -> None:
        answer = await self._send(index)
        self._answers[index] = answer
        if answer.error:
            self._give_up(index)
        elif index in self._followers:
            self._add(self._followers[index], round(answer.end_s * 1e9))

    def _end(self, task: asyncio.Task[None]) -> None:
        self._under_way.discard(task)
        self._failure = self._failure or task.exception()
        self._changed.set()

    def _give_up(self, index: int) -> None:
        """The later turns of a session, one of which has no answer."""
        failed = index
        while (follower := self._followers.get(index)) is not None:
            self._answers[follower] = Answer(
                time.monotonic(), error=f"{NOT_SENT}: request {failed} before it failed"
            )
            index = follower

"""The sequential reference: when each operation of a program ends, in `exact`.

Operations that compute take no time, a sleep takes its duration, a message arrives when it is sent.
Actors take turns in order of time, on one agenda; nothing here is shared with the Timekeeper.
"""

from __future__ import annotations

import heapq
from collections import deque
from dataclasses import dataclass, field

from tests.programs.model import (
    TIMED_OUT,
    Execute,
    Program,
    ReadRealtime,
    Receive,
    ReceiveFor,
    Record,
    Records,
    Send,
    Sleep,
    Spin,
)


class TieError(Exception):
    """An outcome hangs on the order of events within one instant, which is not promised."""


class DeadlockError(Exception):
    """Actors wait for messages that nobody will send."""


@dataclass
class _Channel:
    messages: deque[tuple[int, int]] = field(default_factory=deque)  # (sent at, payload)
    receiver: int | None = None  # the actor that waits
    gave_up_at: int | None = None


@dataclass
class _Actor:
    waits_on: int | None = None  # channel
    deadline: int | None = None
    turn: int = 0  # raised when what the agenda holds for the actor has become void


class _Simulation:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.records: Records = [[] for _ in program.actors]
        self.channels = [_Channel() for _ in program.channels]
        self.actors = [_Actor() for _ in program.actors]
        self.agenda: list[tuple[int, int, int]] = []  # (time, actor, its turn)

    def run(self) -> Records:
        for actor in range(len(self.actors)):
            self._plan(0, actor)
        while self.agenda:
            now, actor, turn = heapq.heappop(self.agenda)
            if turn == self.actors[actor].turn:
                self._act(now, actor)
        for plan, records in zip(self.program.actors, self.records, strict=True):
            if len(records) < len(plan.operations):
                raise DeadlockError
        return self.records

    def _plan(self, time: int, actor: int) -> None:
        self.actors[actor].turn += 1
        heapq.heappush(self.agenda, (time, actor, self.actors[actor].turn))

    def _act(self, now: int, actor: int) -> None:
        """One step of `actor`: its wait is over, or it begins its next operation."""
        waited_on = self.actors[actor].waits_on
        if waited_on is not None:
            self._end_receive(now, actor, self.channels[waited_on])
            return
        done = len(self.records[actor])
        if done == len(self.program.actors[actor].operations):
            return
        match self.program.actors[actor].operations[done]:
            case Sleep(_, ns):
                self._finish(now + ns, actor, 0)
            case Send(channel, payload):
                self._send(now, self.channels[channel], payload)
                self._finish(now, actor, 0)
            case Receive(channel, _):
                self._begin_receive(now, actor, channel, None)
            case ReceiveFor(channel, _, ns):
                self._begin_receive(now, actor, channel, now + ns)
            case ReadRealtime():
                self._finish(now, actor, now)
            case Execute() | Spin():
                self._finish(now, actor, 0)

    def _finish(self, time: int, actor: int, value: int) -> None:
        self.records[actor].append(Record(time, value))
        self._plan(time, actor)

    def _send(self, now: int, channel: _Channel, payload: int) -> None:
        if channel.gave_up_at == now:
            raise TieError
        channel.messages.append((now, payload))
        if channel.receiver is not None:
            self._plan(now, channel.receiver)

    def _begin_receive(self, now: int, actor: int, index: int, deadline: int | None) -> None:
        channel = self.channels[index]
        self.actors[actor].waits_on = index
        self.actors[actor].deadline = deadline
        channel.receiver = actor
        if channel.messages:
            self._plan(now, actor)
        elif deadline is not None:
            self._plan(deadline, actor)

    def _end_receive(self, now: int, actor: int, channel: _Channel) -> None:
        deadline = self.actors[actor].deadline
        self.actors[actor].waits_on = None
        channel.receiver = None
        if not channel.messages:
            channel.gave_up_at = now
            self._finish(now, actor, TIMED_OUT)
            return
        sent_at, payload = channel.messages.popleft()
        if sent_at == deadline:
            raise TieError
        self._finish(now, actor, payload)


def simulate(program: Program) -> Records:
    """The records that `program` must leave, with times from its start.

    Raises TieError and DeadlockError for programs whose outcome is not determined.
    """
    return _Simulation(program).run()

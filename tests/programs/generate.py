"""Draws programs from seeds.

No program deadlocks: operations are drawn in an order in which they could be carried out one after
the other, and an untimed receive only where a message is left for it whatever the timed ones before
it did. Programs whose outcome hangs on the order of events within one instant (a message sent at
the very end of a receive's timeout) are drawn again; the reference finds them.
"""

from __future__ import annotations

import random

from tests.programs.model import (
    MS,
    NEVER_ZERO,
    RECEIVE_MEANS,
    SLEEP_UNIT_NS,
    Actor,
    ChannelKind,
    Execute,
    Operation,
    Program,
    ReadRealtime,
    Receive,
    ReceiveFor,
    Records,
    S,
    Send,
    Sleep,
    Spin,
)
from tests.programs.reference import TieError, simulate

_MAX_ACTORS = 6
_MAX_PROCESSES = 3
_OPERATIONS_PER_ACTOR = 5  # on average
# Starting a process takes longer on the host than all else in a program.
_EXECUTE_PROBABILITY = 0.01
_LONGEST_NS = 3_600 * S  # usleep's 32 bits hold it
# Durations in which actors often meet at one instant.
_ROUND_DURATIONS_NS = (0, 1 * MS, 2 * MS, 5 * MS, 10 * MS)


def generate(seed: int, *, timeouts: bool = True, longest_ns: int = _LONGEST_NS) -> Program:
    """The program of `seed`; without `timeouts` no receive gives up."""
    return generate_with_records(seed, timeouts=timeouts, longest_ns=longest_ns)[0]


def generate_with_records(
    seed: int, *, timeouts: bool = True, longest_ns: int = _LONGEST_NS
) -> tuple[Program, Records]:
    """The program of `seed` and what the reference says of it."""
    rng = random.Random(seed)
    while True:
        program = _Draw(rng, seed, timeouts, longest_ns).program()
        try:
            return program, simulate(program)
        except TieError:
            continue


class _Draw:
    def __init__(self, rng: random.Random, seed: int, timeouts: bool, longest_ns: int) -> None:
        self.rng = rng
        self.seed = seed
        self.timeouts = timeouts
        self.longest_ns = longest_ns
        self.processes = self._processes(rng.randint(2, _MAX_ACTORS))
        self.operations: list[list[Operation]] = [[] for _ in self.processes]
        self.ends: list[tuple[int, int]] = []  # a channel's sender and receiver
        self.kinds: list[ChannelKind] = []
        for _ in range(rng.randint(1, len(self.processes) + 1)):
            self._add_channel()
        self.surely_left = [0] * len(self.kinds)  # messages sent, less receives of any kind

    def program(self) -> Program:
        for _ in range(_OPERATIONS_PER_ACTOR * len(self.processes)):
            actor = self.rng.randrange(len(self.processes))
            self.operations[actor].append(self._operation(actor))
        actors = zip(self.processes, self.operations, strict=True)
        return Program(
            seed=self.seed,
            channels=tuple(self.kinds),
            actors=tuple(Actor(process, tuple(operations)) for process, operations in actors),
        )

    def _processes(self, actors: int) -> list[int]:
        count = self.rng.randint(1, min(actors, _MAX_PROCESSES))
        return [i if i < count else self.rng.randrange(count) for i in range(actors)]

    def _add_channel(self) -> None:
        sender, receiver = self.rng.sample(range(len(self.processes)), 2)
        same_process = self.processes[sender] == self.processes[receiver]
        kinds = [k for k in ChannelKind if same_process or k is not ChannelKind.CONDITION]
        self.ends.append((sender, receiver))
        self.kinds.append(self.rng.choice(kinds))

    def _operation(self, actor: int) -> Operation:
        draw = self.rng.random()
        if draw < _EXECUTE_PROBABILITY:
            return self._execute()
        if draw < 0.05:
            return Spin(self.rng.randint(1, 50_000))
        if draw < 0.10:
            return ReadRealtime()
        if draw < 0.60 and (operation := self._message(actor)):
            return operation
        return self._sleep()

    def _message(self, actor: int) -> Operation | None:
        """A send or a receive; None where the actor has no channel for one."""
        choices: list[Operation] = []
        for channel, (sender, receiver) in enumerate(self.ends):
            if actor == sender:
                choices.append(Send(channel, self.rng.randint(0, 2**62)))
            elif actor == receiver:
                choices += self._receives(channel)
        if not choices:
            return None
        choice = self.rng.choice(choices)
        match choice:
            case Send(channel):
                self.surely_left[channel] += 1
            case Receive(channel) | ReceiveFor(channel):
                self.surely_left[channel] -= 1
        return choice

    def _receives(self, channel: int) -> list[Operation]:
        means, units = RECEIVE_MEANS[self.kinds[channel]]
        choices: list[Operation] = []
        if self.surely_left[channel] > 0:
            choices.append(Receive(channel, self.rng.choice(means)))
        if self.timeouts:
            timed_means = self.rng.choice(sorted(units))
            choices.append(ReceiveFor(channel, timed_means, self._duration(units[timed_means])))
        return choices

    def _sleep(self) -> Sleep:
        means = self.rng.choice(sorted(SLEEP_UNIT_NS))
        unit_ns = SLEEP_UNIT_NS[means]
        shortest_ns = unit_ns if means in NEVER_ZERO else 0
        return Sleep(means, max(self._duration(unit_ns), shortest_ns))

    def _execute(self) -> Execute:
        return Execute(
            means=self.rng.choice(("fork", "spawn")),
            binary=self.rng.choice(("static", "dynamic")),
            iterations=self.rng.randint(1, 1_000_000),
        )

    def _duration(self, unit_ns: int) -> int:
        """A multiple of `unit_ns`: a round one, or one of any order of magnitude."""
        if self.rng.random() < 0.4:
            return self.rng.choice(_ROUND_DURATIONS_NS)
        longest = self.longest_ns // unit_ns
        magnitude = self.rng.randint(0, longest.bit_length())
        return self.rng.randint(0, min(1 << magnitude, longest)) * unit_ns

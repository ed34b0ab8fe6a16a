"""What a program is: actors, their operations, and the channels between them.

Times are virtual, in ns. A channel has one sender, one receiver, and keeps the order of messages.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

US = 1_000
MS = 1_000_000
S = 1_000_000_000


class ChannelKind(enum.StrEnum):
    """By what a message travels."""

    TCP = "tcp"
    UNIX = "unix"
    PIPE = "pipe"
    SOCKETPAIR = "socketpair"
    EVENTFD = "eventfd"
    SEMAPHORE = "semaphore"
    FUTEX = "futex"
    SHARED_CONDITION = "shared_condition"
    CONDITION = "condition"  # of the C++ library; between threads of one process only


# What a sleep may be done by, and the unit (ns) of the durations that the call can express.
SLEEP_UNIT_NS = {
    "nanosleep": 1,
    "clock_nanosleep": 1,
    "clock_nanosleep_monotonic": 1,
    "clock_nanosleep_realtime": 1,
    "usleep": US,
    "thrd_sleep": 1,
    "sleep_for": 1,
    "poll": MS,
    "ppoll": 1,
    "select": US,
    "pselect": 1,
    "epoll_wait": MS,
    "epoll_pwait2": 1,
    "condition_wait_for": 1,
    "pthread_cond_timedwait": 1,
    "sem_timedwait": 1,
    "sem_clockwait": 1,
    "futex_wait": 1,
    "futex_wait_bitset": 1,
    "mutex_timedlock": 1,
    "sigtimedwait": 1,
    "timerfd": 1,
    "timerfd_absolute": 1,
    "timerfd_poll": 1,
    # Of our C API, in a session; elsewhere a nanosleep.
    "actor_jump": 1,
    "actor_wait_until": 1,
}
# Here 0 disarms instead of ending at once.
NEVER_ZERO = frozenset({"timerfd", "timerfd_absolute", "timerfd_poll"})

_DESCRIPTORS = (
    ("read", "poll", "select", "epoll_wait"),
    {"poll": MS, "ppoll": 1, "select": US, "pselect": 1, "epoll_wait": MS, "epoll_pwait2": 1},
)
# By what one can wait for a message: without a timeout, and with one (and its unit).
RECEIVE_MEANS: dict[ChannelKind, tuple[tuple[str, ...], dict[str, int]]] = {
    ChannelKind.TCP: _DESCRIPTORS,
    ChannelKind.UNIX: _DESCRIPTORS,
    ChannelKind.PIPE: _DESCRIPTORS,
    ChannelKind.SOCKETPAIR: _DESCRIPTORS,
    ChannelKind.EVENTFD: _DESCRIPTORS,
    ChannelKind.SEMAPHORE: (("sem_wait",), {"sem_timedwait": 1, "sem_clockwait": 1}),
    ChannelKind.FUTEX: (
        ("futex_wait",),
        {"futex_wait": 1, "futex_wait_bitset": 1, "futex_wait_bitset_realtime": 1},
    ),
    ChannelKind.SHARED_CONDITION: (
        ("pthread_cond_wait",),
        {"pthread_cond_timedwait": 1, "pthread_cond_clockwait": 1},
    ),
    ChannelKind.CONDITION: (("wait",), {"wait_for": 1, "wait_until": 1}),
}


@dataclass(frozen=True)
class Sleep:
    means: str
    ns: int


@dataclass(frozen=True)
class Send:
    channel: int
    payload: int


@dataclass(frozen=True)
class Receive:
    channel: int
    means: str


@dataclass(frozen=True)
class ReceiveFor:
    """Receives, or gives up after `ns`."""

    channel: int
    means: str
    ns: int


@dataclass(frozen=True)
class Execute:
    """Runs another program that computes, and waits for its end."""

    means: str  # fork, spawn
    binary: str  # static, dynamic
    iterations: int


@dataclass(frozen=True)
class Spin:
    """Computes: host time without virtual time."""

    iterations: int


@dataclass(frozen=True)
class ReadRealtime:
    """Reads CLOCK_REALTIME; all operations read CLOCK_MONOTONIC when they have ended."""


Operation = Sleep | Send | Receive | ReceiveFor | Execute | Spin | ReadRealtime


@dataclass(frozen=True)
class Actor:
    """A thread of process `process`; process 0 is the runner itself."""

    process: int
    operations: tuple[Operation, ...]


@dataclass(frozen=True)
class Program:
    seed: int
    channels: tuple[ChannelKind, ...]
    actors: tuple[Actor, ...]


@dataclass(frozen=True)
class Record:
    """What an operation left behind.

    `value` is the payload of a message, TIMED_OUT where none came, the CLOCK_REALTIME that was read
    (ns since the program's start), and 0 for all else.
    """

    time_ns: int
    value: int


TIMED_OUT = -1

Records = list[list[Record]]  # by actor, by operation


def operation_text(operation: Operation) -> str:
    """One line of the text form."""
    match operation:
        case Sleep(means, ns):
            return f"sleep {means} {ns}"
        case Send(channel, payload):
            return f"send {channel} {payload}"
        case Receive(channel, means):
            return f"receive {channel} {means}"
        case ReceiveFor(channel, means, ns):
            return f"receive_for {channel} {means} {ns}"
        case Execute(means, binary, iterations):
            return f"execute {means} {binary} {iterations}"
        case Spin(iterations):
            return f"spin {iterations}"
        case ReadRealtime():
            return "read_realtime"


def program_text(program: Program) -> str:
    """The text form, which the runner reads (runner/program.hpp)."""
    lines = [f"program {program.seed} {len(program.channels)} {len(program.actors)}"]
    lines += [f"channel {kind}" for kind in program.channels]
    for actor in program.actors:
        lines.append(f"actor {actor.process} {len(actor.operations)}")
        lines += [operation_text(operation) for operation in actor.operations]
    return "\n".join(lines) + "\n"

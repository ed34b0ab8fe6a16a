"""Programs of actors that wait and send each other messages, against a sequential reference.

In `exact` every operation must end at the very instant that the reference says, on an idle machine
or a busy one. WARPSERVE_PROGRAMS says how many programs run (10,000).
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from itertools import chain

import pytest

from tests.harness import Warpserve
from tests.programs.execute import Runner, first_difference, reproduce_command
from tests.programs.generate import generate, generate_with_records
from tests.programs.model import (
    MS,
    RECEIVE_MEANS,
    SLEEP_UNIT_NS,
    TIMED_OUT,
    Actor,
    ChannelKind,
    Execute,
    Operation,
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
from tests.programs.reference import DeadlockError, TieError, simulate

_COUNT = int(os.environ.get("WARPSERVE_PROGRAMS", "10000"))
_FEWER = min(_COUNT, 300)
_HOST_LIMIT_S = 1_200.0


@pytest.fixture(scope="session")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Runner:
    runner = Runner(tmp_path_factory.mktemp("programs"))
    runner.build()
    return runner


@pytest.fixture
def busy_machine(busy_cores: Callable[[], AbstractContextManager[None]]) -> Iterator[None]:
    with busy_cores():
        yield


def program_of(*actors: Sequence[Operation], channels: Sequence[ChannelKind] = ()) -> Program:
    """Each actor in a process of its own."""
    return Program(
        seed=0,
        channels=tuple(channels),
        actors=tuple(Actor(i, tuple(operations)) for i, operations in enumerate(actors)),
    )


def run_in_session(
    warpserve: Warpserve, runner: Runner, programs: Sequence[Program], *options: str
) -> list[Records]:
    outcome = warpserve.run(runner.command(programs), options=options, limit_s=_HOST_LIMIT_S)
    assert outcome.exit_code == 0, outcome.stderr
    return runner.records()


def check_in_session(warpserve: Warpserve, runner: Runner, seeds: range, *options: str) -> None:
    programs, expected = zip(*map(generate_with_records, seeds), strict=True)
    got = run_in_session(warpserve, runner, programs, *options)
    differences = map(first_difference, programs, expected, got)
    different = [difference for difference in differences if difference]
    assert not different, f"{len(different)} of {len(seeds)} programs; the first: {different[0]}"


# --- generated programs -----------------------------------------------------------------------


def test_programs(warpserve: Warpserve, runner: Runner) -> None:
    check_in_session(warpserve, runner, range(_COUNT))


@pytest.mark.usefixtures("busy_machine")
def test_programs_on_a_busy_machine(warpserve: Warpserve, runner: Runner) -> None:
    check_in_session(warpserve, runner, range(_FEWER))


def test_no_advance_of_audited_programs_comes_early(warpserve: Warpserve, runner: Runner) -> None:
    check_in_session(warpserve, runner, range(_FEWER), "--audit")


# --- the paper's cases, by hand ---------------------------------------------------------------

# The targets 50 and 10: time goes to 10 first, and from there to 50.
_TWO_TARGETS = program_of([Sleep("actor_jump", 50 * MS)], [Sleep("actor_jump", 10 * MS)])
_TWO_TARGETS_RECORDS = [[Record(50 * MS, 0)], [Record(10 * MS, 0)]]


def _request_at_200_ms(work: Operation) -> Program:
    """A client asks at 200 ms for 50 ms of service, while another actor runs until 500 ms.

    `work` is what the client has to do on the host before the request leaves.
    """
    return program_of(
        [Sleep("actor_jump", 500 * MS)],
        [Sleep("nanosleep", 200 * MS), work, Send(0, 7), Receive(1, "poll")],
        [Receive(0, "epoll_wait"), Sleep("actor_jump", 50 * MS), Send(1, 8)],
        channels=[ChannelKind.TCP, ChannelKind.TCP],
    )


_REQUEST_RECORDS = [
    [Record(500 * MS, 0)],
    [Record(200 * MS, 0), Record(200 * MS, 0), Record(200 * MS, 0), Record(250 * MS, 8)],
    [Record(200 * MS, 7), Record(250 * MS, 0), Record(250 * MS, 0)],
]
# From no delay on the host to one of some tens of milliseconds, a starting process among them.
_JITTER: list[Operation] = [
    Spin(0),
    Spin(1_000),
    Spin(10_000_000),
    Execute("fork", "static", 10_000_000),
    Execute("spawn", "dynamic", 1),
]
_PAPER = [
    (_TWO_TARGETS, _TWO_TARGETS_RECORDS),
    *((_request_at_200_ms(work), _REQUEST_RECORDS) for work in _JITTER),
]


def test_the_papers_cases(warpserve: Warpserve, runner: Runner) -> None:
    programs, expected = zip(*_PAPER, strict=True)
    assert run_in_session(warpserve, runner, programs) == list(expected)


@pytest.mark.parametrize(("program", "records"), _PAPER)
def test_the_reference_knows_the_papers_cases(program: Program, records: Records) -> None:
    assert simulate(program) == records


# --- the reference ----------------------------------------------------------------------------


def test_a_message_waits_for_its_receiver() -> None:
    program = program_of(
        [Send(0, 5)], [Sleep("usleep", 3), Receive(0, "read")], channels=[ChannelKind.PIPE]
    )
    assert simulate(program) == [[Record(0, 0)], [Record(3, 0), Record(3, 5)]]


def test_messages_keep_their_order() -> None:
    program = program_of(
        [Send(0, 1), Sleep("poll", 10), Send(0, 2)],
        [Receive(0, "read"), Receive(0, "read")],
        channels=[ChannelKind.PIPE],
    )
    assert simulate(program)[1] == [Record(0, 1), Record(10, 2)]


def test_a_receive_that_gives_up_leaves_the_message_for_the_next() -> None:
    program = program_of(
        [Sleep("poll", 10), Send(0, 1)],
        [ReceiveFor(0, "poll", 4), ReceiveFor(0, "poll", 20)],
        channels=[ChannelKind.UNIX],
    )
    assert simulate(program)[1] == [Record(4, TIMED_OUT), Record(10, 1)]


def test_what_only_costs_host_time_takes_none() -> None:
    program = program_of([Spin(9), Execute("fork", "static", 9), Sleep("poll", 2), ReadRealtime()])
    assert simulate(program) == [[Record(0, 0), Record(0, 0), Record(2, 0), Record(2, 2)]]


@pytest.mark.parametrize(
    "receiver",
    [
        [ReceiveFor(0, "poll", 10)],
        [Sleep("poll", 10), ReceiveFor(0, "poll", 0)],
        [Sleep("poll", 3), ReceiveFor(0, "poll", 7)],
    ],
)
@pytest.mark.parametrize("swapped", [False, True])
def test_a_message_at_the_very_end_of_a_timeout_is_a_tie(
    receiver: list[Operation], swapped: bool
) -> None:
    actors = [[Sleep("poll", 10), Send(0, 1)], receiver]
    program = program_of(*(reversed(actors) if swapped else actors), channels=[ChannelKind.PIPE])
    with pytest.raises(TieError):
        simulate(program)


def test_a_message_that_nobody_sends_is_a_deadlock() -> None:
    program = program_of([], [Receive(0, "read")], channels=[ChannelKind.PIPE])
    with pytest.raises(DeadlockError):
        simulate(program)


# --- the comparison and the generator ---------------------------------------------------------


def test_a_planted_wrong_time_is_found() -> None:
    program, expected = generate_with_records(1)
    got = [list(records) for records in expected]
    assert first_difference(program, expected, got) is None
    got[1][2] = replace(got[1][2], time_ns=got[1][2].time_ns + 1)
    difference = first_difference(program, expected, got)
    assert difference is not None
    assert (difference.actor, difference.operation) == (1, 2)
    assert difference.got.time_ns == difference.expected.time_ns + 1
    assert reproduce_command(1) in str(difference)


def test_a_planted_wrong_message_is_found() -> None:
    program = program_of([Send(0, 1)], [Receive(0, "read")], channels=[ChannelKind.PIPE])
    difference = first_difference(
        program, simulate(program), [[Record(0, 0)], [Record(0, TIMED_OUT)]]
    )
    assert difference is not None
    assert difference.actor == 1


def test_a_seed_is_a_program() -> None:
    assert generate(3) == generate(3)
    assert generate(3) != generate(4)


def test_generated_programs_exercise_everything() -> None:
    programs = [generate_with_records(seed) for seed in range(1_000)]
    kinds = {kind for program, _ in programs for kind in program.channels}
    operations = [
        o for program, _ in programs for actor in program.actors for o in actor.operations
    ]
    means = {o.means for o in operations if isinstance(o, Sleep)}
    assert kinds == set(ChannelKind)
    assert means == set(SLEEP_UNIT_NS)
    for channel_kind, (untimed, timed) in RECEIVE_MEANS.items():
        received = {
            (type(o), o.means)
            for program, _ in programs
            for actor in program.actors
            for o in actor.operations
            if isinstance(o, Receive | ReceiveFor) and program.channels[o.channel] is channel_kind
        }
        assert received == {(Receive, m) for m in untimed} | {(ReceiveFor, m) for m in timed}
    values = [r.value for _, records in programs for actor in records for r in actor]
    assert values.count(TIMED_OUT) > 500


# --- the runner -------------------------------------------------------------------------------


def test_natively_nothing_ends_early(runner: Runner) -> None:
    """Outside of a session host time passes: all ends at its virtual time or later."""
    programs, expected = zip(
        *(generate_with_records(s, timeouts=False, longest_ns=MS) for s in range(20)), strict=True
    )
    subprocess.run(runner.command(programs), check=True, timeout=60)
    for program, records, reals in zip(programs, expected, runner.records(), strict=True):
        for record, real in zip(chain(*records), chain(*reals), strict=True):
            assert real.time_ns >= record.time_ns, program

"""Every timed wait takes exactly what was asked for, in virtual time."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness import CLIENTS, Warpserve, member_pythons

MS = 1_000_000
SECOND = 1_000 * MS
SHORT_NS = 130 * MS  # the longest wait that is tried where host time has to pass

Compile = Callable[[str | Path], Path]
Waits = dict[str, dict[str, int]]


def python_waits(warpserve: Warpserve, python: str, *arguments: str, clock: str) -> Waits:
    """The waits of tests/clients/waits.py by name: expected_ns, at_most_ns and measured_ns."""
    client = [python, str(CLIENTS / "waits.py"), *arguments]
    outcome = warpserve.run(client, options=[f"--clock={clock}"], limit_s=120)
    assert outcome.exit_code == 0, outcome.stderr
    waits: Waits = json.loads(outcome.stdout)
    return waits


@pytest.mark.parametrize("python", member_pythons())
def test_python_waits_are_exact(warpserve: Warpserve, python: str) -> None:
    waits = python_waits(warpserve, python, clock="exact")
    assert len(waits) > 40
    wrong = {
        name: wait
        for name, wait in waits.items()
        if not isinstance(wait["measured_ns"], int)  # an error, or clocks that do not agree
        or not wait["expected_ns"] <= wait["measured_ns"] <= wait["at_most_ns"]
    }
    assert wrong == {}


@pytest.mark.parametrize("clock", ["live", "sleep"])
def test_python_waits_never_end_early(warpserve: Warpserve, clock: str) -> None:
    waits = python_waits(warpserve, sys.executable, str(SHORT_NS), clock=clock)
    assert len(waits) > 10
    early = {
        name: wait
        for name, wait in waits.items()
        if not isinstance(wait["measured_ns"], list)  # of three clocks, read one after the other
        and wait["measured_ns"] < wait["expected_ns"]
    }
    assert early == {}


def native_waits(
    warpserve: Warpserve, program: Path, *arguments: str, clock: str
) -> list[list[str]]:
    """Lines of tests/clients/native_waits.c: name, expected, CLOCK_MONOTONIC, CLOCK_REALTIME."""
    outcome = warpserve.run([program, *arguments], options=[f"--clock={clock}"])
    assert outcome.exit_code == 0, outcome.stderr
    return [line.split() for line in outcome.stdout.splitlines()]


def test_native_waits_are_exact(warpserve: Warpserve, native_program: Compile) -> None:
    program = native_program(CLIENTS / "native_waits.c")
    waits = native_waits(warpserve, program, clock="exact")
    assert len(waits) > 20
    assert [wait for wait in waits if len(set(wait[1:])) != 1] == []


@pytest.mark.parametrize("clock", ["live", "sleep"])
def test_native_waits_never_end_early(
    warpserve: Warpserve, native_program: Compile, clock: str
) -> None:
    program = native_program(CLIENTS / "native_waits.c")
    waits = native_waits(warpserve, program, str(SHORT_NS), clock=clock)
    assert len(waits) > 15
    assert [wait for wait in waits if int(wait[2]) < int(wait[1])] == []


def test_live_skips_what_nobody_works_on(warpserve: Warpserve) -> None:
    outcome = warpserve.run(["sleep", "86400"], options=["--clock=live"])
    assert outcome.exit_code == 0
    assert outcome.session.virtual_ns >= 86_400 * SECOND
    assert outcome.session.host_ns < 3_600 * SECOND


@pytest.mark.parametrize("clock", ["exact", "live", "sleep"])
def test_waits_end_in_the_order_of_their_targets(warpserve: Warpserve, clock: str) -> None:
    delays = [5, 1, 4, 2, 3]
    script = "; ".join(f"(sleep 0.{delay}; echo {delay}) &" for delay in delays).replace("&;", "&")
    outcome = warpserve.run(["/bin/sh", "-c", f"{script} wait"], options=[f"--clock={clock}"])
    assert outcome.stdout.split() == [str(delay) for delay in sorted(delays)]


def test_a_busy_loop_on_the_clock_ends_and_is_counted(warpserve: Warpserve) -> None:
    program = (
        "import time\n"
        "end = time.monotonic_ns() + 10_000_000\n"
        "while time.monotonic_ns() < end: pass\n"
        "print(time.monotonic_ns() - end)\n"
    )
    outcome = warpserve.run([sys.executable, "-c", program])
    assert outcome.exit_code == 0
    # It was charged 1, 2, 4, … 2**19 ns, and then nine times the quantum of 1 ms.
    assert int(outcome.stdout) == (2**20 - 1 + 9_000_000) - 10_000_000
    assert outcome.session.warnings["busy_wait"] == 1
    assert "1 busy-wait(s) were charged virtual time" in outcome.stderr


def test_time_starts_where_it_is_told_to(warpserve: Warpserve) -> None:
    options = ["--start-time=2031-02-03T04:05:06+00:00"]
    outcome = warpserve.run(["date", "-u", "+%FT%T.%N"], options=options)
    assert outcome.stdout == "2031-02-03T04:05:06.000000000\n"

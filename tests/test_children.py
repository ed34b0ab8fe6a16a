"""While any descendant of a member works, no virtual time passes (invariant T5)."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness import CLIENTS, Outcome, Warpserve

SECOND = 1_000_000_000
HOST_MS = 500

Compile = Callable[[str | Path], Path]


@pytest.fixture
def host_time(static_program: Compile) -> str:
    """A static program that spends host time: tests/clients/host_time.c."""
    return str(static_program(CLIENTS / "host_time.c"))


def run_child(warpserve: Warpserve, how: str, *command: str) -> Outcome:
    """Runs `command` under a member that also waits one virtual second; no time may pass first."""
    client = [sys.executable, str(CLIENTS / "waits_for_child.py"), how, *command]
    outcome = warpserve.run(client, options=["--audit"])
    assert outcome.exit_code == 0, outcome.stderr
    assert outcome.session.audit.violations == 0, outcome.session.audit
    assert json.loads(outcome.stdout) == {"child_ns": 0, "timer_ns": SECOND}
    return outcome


@pytest.mark.parametrize("work", ["compute", "sleep", "threads"])
def test_no_time_passes_while_a_static_binary_works(
    warpserve: Warpserve, host_time: str, work: str
) -> None:
    outcome = run_child(warpserve, "popen", host_time, work, str(HOST_MS))
    assert outcome.session.host_ns >= HOST_MS * 1_000_000
    assert outcome.session.warnings["static_binary"] == 1
    assert f"{host_time} is a static binary: its clock is not virtual" in outcome.stderr


def test_no_time_passes_in_three_host_seconds(warpserve: Warpserve, host_time: str) -> None:
    outcome = run_child(warpserve, "popen", host_time, "compute", "3000")
    assert outcome.session.host_ns >= 3 * SECOND


@pytest.mark.parametrize("how", ["posix_spawn", "empty_environment", "system"])
def test_however_it_is_started(warpserve: Warpserve, host_time: str, how: str) -> None:
    run_child(warpserve, how, host_time, "compute", str(HOST_MS))


@pytest.mark.parametrize(
    "script",
    [
        pytest.param("sh -c '{}; :'; :", id="grandchild"),
        pytest.param("{} & {} & wait", id="background jobs"),
        pytest.param("env -i {}", id="scrubbed environment"),
        pytest.param("{} | cat", id="pipeline"),
        pytest.param("(setsid {} &) ; cat /dev/null; {}", id="daemon"),
    ],
)
def test_under_a_shell(warpserve: Warpserve, host_time: str, script: str) -> None:
    work = f"{host_time} compute {HOST_MS}"
    run_child(warpserve, "popen", "/bin/sh", "-c", script.replace("{}", work))


def test_no_time_passes_while_a_daemon_works(warpserve: Warpserve, host_time: str) -> None:
    """Its parent has returned at once, and nobody waits for it."""
    script = f"{host_time} daemon {HOST_MS}; exec sleep 60"
    outcome = warpserve.run(["/bin/sh", "-c", script], options=["--audit"])
    assert outcome.exit_code == 0, outcome.stderr
    assert outcome.session.virtual_ns == 60 * SECOND
    assert outcome.session.host_ns >= HOST_MS * 1_000_000
    assert outcome.session.audit.violations == 0


def test_a_static_binary_that_becomes_a_dynamic_one_joins(
    warpserve: Warpserve, host_time: str
) -> None:
    outcome = warpserve.run([host_time, "exec", str(HOST_MS), "/bin/sleep", "1000"])
    assert outcome.exit_code == 0, outcome.stderr
    assert outcome.session.virtual_ns == 1000 * SECOND


@pytest.mark.parametrize("work", ["compute", "sleep"])
@pytest.mark.parametrize("call", ["fork", "vfork"])
def test_no_time_passes_between_fork_and_exec(
    warpserve: Warpserve, native_program: Compile, call: str, work: str
) -> None:
    program = native_program(CLIENTS / "before_exec.c")
    outcome = warpserve.run([program, call, work, str(HOST_MS)], options=["--audit"])
    assert outcome.exit_code == 0, outcome.stderr
    assert outcome.stdout == "0\n"
    assert outcome.session.host_ns >= HOST_MS * 1_000_000
    assert outcome.session.audit.violations == 0


def test_children_have_the_sessions_clock(warpserve: Warpserve) -> None:
    """Through shells, scrubbed environments and a daemon; each sees the time of its start."""
    date = "date -u +%T"
    script = f"{date}; sleep 60; env -i /bin/{date}; sleep 60; ({date}); sh -c 'sleep 60; {date}'"
    outcome = warpserve.run(["/bin/sh", "-c", script])
    assert outcome.stdout.split() == ["00:00:00", "00:01:00", "00:02:00", "00:03:00"]
    assert outcome.session.virtual_ns == 180 * SECOND


def test_a_session_inside_a_session_is_refused(warpserve: Warpserve) -> None:
    inner = [sys.executable, "-P", "-m", "warpserve", "run", "--", "/bin/true"]
    outcome = warpserve.run(inner)
    assert outcome.exit_code == 2
    assert "a session inside a session" in outcome.stderr

"""`warpserve status`: what a session is doing, for people and for programs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from tests.harness import RunningWarpserve, Warpserve, eventually
from warpserve.timekeeper import control
from warpserve.timekeeper.cli import status
from warpserve.timekeeper.report import print_state
from warpserve.timekeeper.state import SessionState

SECOND = 1_000_000_000
TWO_SLEEPERS_AND_A_SPINNER = """
import threading, time
for delay in (100, 200):
    threading.Thread(target=time.sleep, args=(delay,), daemon=True).start()
time.sleep(5)
while True: pass
"""


def spinning(warpserve: Warpserve) -> RunningWarpserve:
    """At 5 s of virtual time one thread computes; two others wait for 100 s and 200 s."""
    running = warpserve.start([sys.executable, "-c", TWO_SLEEPERS_AND_A_SPINNER])

    def is_spinning() -> bool:
        state = running.state()
        return state.virtual_ns == 5 * SECOND and state.busy is not None

    eventually(is_spinning, "the thread that computes")
    return running


def test_json_says_who_waits_and_who_keeps_time_still(warpserve: Warpserve) -> None:
    running = spinning(warpserve)
    name = running.session_folder().name
    lines = warpserve.cli("status", "--json").stdout.splitlines()
    assert len(lines) == 1
    state = json.loads(lines[0])
    assert state["schema"] == 1
    assert (state["clock"], state["guard"]) == ("exact", "settle")
    assert state["virtual_ns"] == 5 * SECOND
    assert state["blocked_by"] == "a thread can run"
    [member] = state["members"]
    assert member["virtual_clock"]
    assert not member["remote"]
    assert len(member["threads"]) == 3
    assert state["busy"]["pid"] == member["id"]
    assert state["busy"]["tid"] == member["id"]  # the main thread
    assert "can run" in state["busy"]["why"]
    targets = sorted(wait["target_ns"] for wait in state["waiting"])
    assert targets == [100 * SECOND, 200 * SECOND]
    assert {wait["in"] for wait in state["waiting"]} <= {"clock_nanosleep", "select"}
    assert warpserve.cli("status", "--json", name).stdout.splitlines()
    running.end()


def test_the_picture_for_people(warpserve: Warpserve) -> None:
    running = spinning(warpserve)
    pid = running.state().members[0].id
    name = running.session_folder().name
    outcome = warpserve.cli("status")
    assert outcome.exit_code == 0
    text = outcome.stdout
    assert f"session {name}" in text
    assert "time 5.000000000 s" in text
    assert "a second at present" in text
    assert f"time stands still: thread {pid} of process {pid}" in text
    assert "can run" in text
    assert "100.000000000 s" in text
    assert "95.000000000 s" in text  # what remains
    running.end()


def test_names_with_brackets_are_shown_as_they_are(warpserve: Warpserve) -> None:
    """They are the programs', not markup of ours."""
    running = spinning(warpserve)
    state = json.loads(running.state().model_dump_json(by_alias=True))
    running.end()
    state["members"][0]["name"] = state["busy"]["name"] = state["waiting"][0]["in"] = "[/worker]"
    state["holders"] = ["[/worker]"]
    console = Console(width=160)
    with console.capture() as shown:
        print_state(console, "name", SessionState.model_validate(state))
    assert shown.get().count("[/worker]") == 4


def test_a_static_binary_is_shown_with_the_clock_that_it_has(
    warpserve: Warpserve, static_program: object
) -> None:
    assert callable(static_program)
    program: Path = static_program("int main(void) { for (;;) {} }")
    running = warpserve.start([program])
    members = eventually(lambda: running.state().members or None, "the static binary")
    assert [member.virtual_clock for member in members] == [False]
    assert "host" in warpserve.cli("status").stdout
    running.end()


def test_advances_per_second_are_counted(warpserve: Warpserve) -> None:
    program = "import time\nwhile True: time.sleep(1)"
    running = warpserve.start([sys.executable, "-c", program])
    eventually(lambda: running.state().advances_per_s > 0, "a rate of advances")
    assert running.state().advances > 0
    running.end()


def test_no_session(warpserve: Warpserve) -> None:
    outcome = warpserve.cli("status")
    assert (outcome.exit_code, outcome.stdout) == (0, "no session is running\n")
    assert warpserve.cli("status", "--json").stdout == ""
    unknown = warpserve.cli("status", "nothing")
    assert unknown.exit_code == 2
    assert "no session nothing" in unknown.stderr


def test_status_can_be_asked_from_inside_a_session(warpserve: Warpserve) -> None:
    inner = [sys.executable, "-P", "-m", "warpserve", "status", "--json"]
    outcome = warpserve.run(inner, stdin=subprocess.DEVNULL)
    assert outcome.exit_code == 0, outcome.stderr
    assert json.loads(outcome.stdout)["virtual_ns"] == 0


def test_a_session_of_another_version_is_named_and_hides_no_other(
    warpserve: Warpserve, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    program = "import time\nwhile True: time.sleep(1)"
    running = warpserve.start([sys.executable, "-c", program])
    monkeypatch.setattr(control, "CONTRACT_VERSION", 77)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(running.session_folder().parent.parent))
    status(as_json=True)
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "contract version" in printed.err
    monkeypatch.undo()
    running.end()

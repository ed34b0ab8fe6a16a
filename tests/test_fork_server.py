"""Processes that are forked where an engine spawns them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.harness import CLIENTS, eventually, process_state

PROGRAM = CLIENTS / "spawning.py"


def run(what: str) -> Any:
    result = subprocess.run(
        [sys.executable, PROGRAM, what], capture_output=True, text=True, timeout=60
    )
    assert result.stderr == ""
    return json.loads(result.stdout)


@pytest.fixture(scope="module")
def spawned() -> Any:
    return run("main")


def test_a_process_is_forked_and_as_if_spawned(spawned: Any) -> None:
    first = spawned["first"]
    assert first["forked"]
    assert first["ends at SIGTERM"]
    assert first["is interrupted"]
    assert (first["name"], first["parent's name"]) == (Path(sys.executable).name, "fork server")
    assert first["read at import"] is None


def test_its_exit_code_is_known(spawned: Any) -> None:
    assert spawned["exit code"] == 7


def test_what_it_tells_its_parent_is_passed_on(spawned: Any) -> None:
    assert spawned["parent is told"]


def test_its_own_processes_are_forked_too(spawned: Any) -> None:
    assert spawned["child of a child"]["forked"]
    assert spawned["child of a child"]["parent"] == spawned["first"]["parent"]


def test_it_has_the_environment_of_its_start(spawned: Any) -> None:
    assert spawned["with another GPU"]["forked"]
    assert spawned["with another GPU"]["read when used"] == "1"


def test_what_is_read_at_import_is_read_again(spawned: Any) -> None:
    assert not spawned["afresh"]["forked"]
    assert spawned["afresh"]["read at import"] == "1"


def test_threads_are_not_lost() -> None:
    assert not run("with_threads")["forked"]


def test_the_fork_server_ends_with_its_process_and_not_before() -> None:
    program = subprocess.Popen(
        [sys.executable, PROGRAM, "be_killed"], stdout=subprocess.PIPE, text=True
    )
    assert program.stdout is not None
    pids = json.loads(program.stdout.readline())
    program.wait()
    try:
        eventually(
            lambda: process_state(pids["fork server"]) in (None, "Z"), "the fork server's end"
        )
    finally:
        os.kill(pids["process"], signal.SIGKILL)

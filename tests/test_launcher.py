"""Starting a session whose Timekeeper does not come up."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.harness import process_state
from warpserve.errors import SessionError
from warpserve.timekeeper import launcher, native
from warpserve.timekeeper.launcher import RunningSession, sessions_folder

IMPOSTOR = """#!{python}
import os, pathlib, sys, time
pathlib.Path({pid_file!r}).write_text(str(os.getpid()))
ready = next(int(flag.partition("=")[2]) for flag in sys.argv if flag.startswith("--ready-fd="))
{does}
"""
FOREVER = "time.sleep(1000)"


@pytest.mark.parametrize(
    ("does", "why"),
    [
        (FOREVER, r"not ready within 2\.0 s"),
        (f"os.write(ready, b'rea'); {FOREVER}", r"not ready within 2\.0 s"),
        (f"os.close(ready); {FOREVER}", "did not start"),
        ("sys.exit(1)", "did not start"),
        ("os.write(ready, b'oh\\n')", "did not start"),
    ],
)
def test_a_timekeeper_that_never_is_ready_is_given_up_and_ended(
    runtime: Path, monkeypatch: pytest.MonkeyPatch, does: str, why: str
) -> None:
    program, pid_file = runtime / "impostor", runtime / "pid"
    program.write_text(IMPOSTOR.format(python=sys.executable, pid_file=str(pid_file), does=does))
    program.chmod(0o700)
    monkeypatch.setattr(native, "timekeeper_executable", lambda: program)
    monkeypatch.setattr(launcher, "_READY_LIMIT_S", 2.0)
    with pytest.raises(SessionError, match=why):
        RunningSession()
    assert process_state(int(pid_file.read_text())) is None, "it runs, or is not reaped"
    assert list(sessions_folder().iterdir()) == []

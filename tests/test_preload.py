"""The preloaded library: every interposed wait, the C API, joining, and what it refuses."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness import CLIENTS, Warpserve, compile_native
from warpserve.timekeeper.native import preload_library

ROOT = Path(__file__).parent.parent
NATIVE = ROOT / "tests" / "native"

# Loads the C API as a member sees it: `ws`, and `check` for what returns a status.
API = """
import ctypes, os, select, sys, threading, time
ws = ctypes.CDLL(sys.argv[1] if len(sys.argv) > 1 else None)
I64, PTR = ctypes.c_int64, ctypes.c_void_p
for name in ("ws_now_ns", "ws_host_now_ns", "ws_realtime_epoch_ns", "ws_monotonic_base_ns"):
    getattr(ws, name).restype = I64
for name in ("ws_error", "ws_join_error", "ws_session_folder"):
    getattr(ws, name).restype = ctypes.c_char_p
ws.ws_actor_wait_until.argtypes = ws.ws_actor_jump.argtypes = [PTR, I64]
ws.ws_actor_arm.argtypes = [PTR, I64, ctypes.c_int]
for name in ("ws_actor_cancel", "ws_actor_is_due", "ws_actor_disarm", "ws_actor_destroy",
             "ws_hold_release"):
    getattr(ws, name).argtypes = [PTR]
def actor(label=b"test"):
    handle = PTR()
    assert ws.ws_actor_create(label, ctypes.byref(handle)) == 0
    return handle
"""


def run_api(warpserve: Warpserve, script: str) -> None:
    """Runs a script with the API's preamble as a member; its asserts are the test."""
    outcome = warpserve.run([sys.executable, "-c", API + script])
    assert outcome.exit_code == 0, outcome.stderr


def test_every_wait_in_a_member(warpserve: Warpserve, tmp_path: Path) -> None:
    flags = ["-std=c++20", f"-I{ROOT}", str(NATIVE / "check_main.cpp")]
    program = compile_native(tmp_path, NATIVE / "preload" / "member_test.cpp", *flags)
    outcome = warpserve.run([program], limit_s=120)
    assert outcome.exit_code == 0, outcome.stdout + outcome.stderr


def test_a_jump_ends_exactly_at_its_target(warpserve: Warpserve) -> None:
    run_api(
        warpserve,
        """
a = actor()
start = ws.ws_now_ns()
assert ws.ws_actor_jump(a, 123_456_789) == 0
assert ws.ws_now_ns() == start + 123_456_789
assert ws.ws_actor_wait_until(a, start + 200_000_000) == 0
assert ws.ws_now_ns() == start + 200_000_000
assert ws.ws_actor_wait_until(a, start) == 0
assert ws.ws_now_ns() == start + 200_000_000
assert time.monotonic_ns() == ws.ws_monotonic_base_ns() + ws.ws_now_ns()
assert time.time_ns() == ws.ws_realtime_epoch_ns() + ws.ws_now_ns()
assert ws.ws_mode() == 1 and ws.ws_is_member() == 1 and ws.ws_ended() == 0
assert os.fsdecode(ws.ws_session_folder()) == os.environ["WARPSERVE_SESSION"]
ws.ws_actor_destroy(a)
""",
    )


def test_settling_comes_after_all_that_happens_at_the_instant(warpserve: Warpserve) -> None:
    """Another process and this one send a byte to and fro; a third wait is for later."""
    run_api(
        warpserve,
        """
a = actor()
ours, theirs = os.pipe(), os.pipe()
if os.fork() == 0:
    for _ in range(300):
        os.write(theirs[1], os.read(ours[0], 1))
    os._exit(0)
came = []
def talk():
    time.sleep(0.01)
    for _ in range(300):
        os.write(ours[1], b"x")
        came.append(os.read(theirs[0], 1))
threads = [threading.Thread(target=talk), threading.Thread(target=time.sleep, args=(0.010001,))]
for thread in threads:
    thread.start()
start = ws.ws_now_ns()
assert ws.ws_actor_jump(a, 10_000_000) == 0
assert ws.ws_settle() == 0
assert len(came) == 300 and ws.ws_now_ns() == start + 10_000_000
assert ws.ws_settle() == 0 and ws.ws_now_ns() == start + 10_000_000
for thread in threads:
    thread.join()
""",
    )


def test_nobody_settles_where_host_time_passes(warpserve: Warpserve) -> None:
    outcome = warpserve.run(
        [sys.executable, "-c", API + "assert ws.ws_settle() == 0"],
        options=["--clock", "live"],
    )
    assert outcome.exit_code == 0, outcome.stderr


@pytest.mark.parametrize(
    ("call", "status"),
    [
        ("ws.ws_actor_jump(a, -1)", -5),
        ("ws.ws_actor_wait_until(a, -1)", -5),
        ("ws.ws_actor_jump(a, 2**63 - 1)", -6),
        ("ws.ws_actor_wait_until(a, 2**63 - 1)", -6),
        ("ws.ws_actor_arm(a, -1, 0)", -5),
    ],
)
def test_bad_times_are_refused(warpserve: Warpserve, call: str, status: int) -> None:
    script = f"""
a = actor()
time.sleep(1)
now = ws.ws_now_ns()
assert {call} == {status}, {call}
assert ws.ws_now_ns() == now and ws.ws_error({status})
"""
    run_api(warpserve, script)


def test_another_thread_cancels_a_wait(warpserve: Warpserve) -> None:
    run_api(
        warpserve,
        """
a = actor()
start = ws.ws_now_ns()
threading.Timer(3, ws.ws_actor_cancel, [a]).start()
assert ws.ws_actor_jump(a, 100_000_000_000) == -7
assert ws.ws_now_ns() == start + 3_000_000_000
assert ws.ws_actor_cancel(a) == 0
assert ws.ws_actor_jump(a, 5) == -7
assert ws.ws_actor_jump(a, 5) == 0
""",
    )


def test_an_actor_in_an_event_loop(warpserve: Warpserve) -> None:
    run_api(
        warpserve,
        """
libc = ctypes.CDLL(None)
a, fd = actor(), libc.eventfd(0, os.O_NONBLOCK | os.O_CLOEXEC)
start = ws.ws_now_ns()
assert ws.ws_actor_arm(a, start + 2_000_000_000, fd) == 0
assert ws.ws_actor_arm(a, start + 3_000_000_000, fd) == -9
assert ws.ws_actor_jump(a, 1) == -9
assert ws.ws_actor_is_due(a) == 0
assert select.select([fd], [], [], 10) == ([fd], [], [])
assert ws.ws_now_ns() == start + 2_000_000_000
assert ws.ws_actor_is_due(a) == 1
assert ws.ws_actor_disarm(a) == 1
os.read(fd, 8)
assert ws.ws_actor_arm(a, start + 60_000_000_000, fd) == 0
assert ws.ws_actor_disarm(a) == 0
time.sleep(5)
assert ws.ws_now_ns() == start + 7_000_000_000
""",
    )


def test_only_an_eventfd_wakes_an_event_loop(warpserve: Warpserve) -> None:
    """A write to a full pipe would block the Timekeeper."""
    script = API + "ws.ws_actor_arm(actor(), ws.ws_now_ns() + 1, os.pipe()[1])"
    outcome = warpserve.run([sys.executable, "-c", script])
    assert outcome.exit_code == 97
    assert "the Timekeeper refused a wake-up descriptor: an eventfd is needed" in outcome.stderr


def test_no_time_passes_while_a_hold_is_out(warpserve: Warpserve) -> None:
    run_api(
        warpserve,
        """
hold = PTR()
assert ws.ws_hold_create(b"test", ctypes.byref(hold)) == 0
woken = threading.Event()
sleeper = threading.Thread(target=lambda: (time.sleep(1), woken.set()))
sleeper.start()
host_end = ws.ws_host_now_ns() + 300_000_000
while ws.ws_host_now_ns() < host_end:
    pass
assert not woken.is_set() and ws.ws_now_ns() == 0
ws.ws_hold_release(hold)
sleeper.join()
assert ws.ws_now_ns() == 1_000_000_000
""",
    )


def test_handles_are_not_for_forked_children(warpserve: Warpserve) -> None:
    run_api(
        warpserve,
        """
a = actor()
pid = os.fork()
if pid == 0:
    os._exit(0 if ws.ws_actor_jump(a, 1) == -1 and ws.ws_is_member() else 1)
assert os.waitpid(pid, 0)[1] == 0
assert ws.ws_actor_jump(a, 1) == 0
""",
    )


def test_a_process_joins_without_having_been_preloaded(warpserve: Warpserve) -> None:
    joining = API + (
        "host = time.monotonic_ns()\n"
        "assert ws.ws_is_member() == 0 and ws.ws_now_ns() == -1\n"
        "assert ws.ws_join(os.fsencode(sys.argv[2])) == 0, ws.ws_join_error()\n"
        "assert ws.ws_join(os.fsencode(sys.argv[2])) == -2\n"
        "a, start = actor(), ws.ws_now_ns()\n"
        "assert ws.ws_actor_jump(a, 3_600_000_000_000) == 0\n"
        "assert ws.ws_now_ns() == start + 3_600_000_000_000\n"
        "assert time.monotonic_ns() - host < 600_000_000_000\n"
    )
    script = f"""
import os, subprocess, sys
folder = os.environ["WARPSERVE_SESSION"]
outside = dict(os.environ, WARPSERVE_SESSION="")
del outside["LD_PRELOAD"]
subprocess.run([sys.executable, "-c", {joining!r}, {str(preload_library())!r}, folder],
               env=outside, check=True)
"""
    outcome = warpserve.run([sys.executable, "-c", script])
    assert outcome.exit_code == 0, outcome.stderr


def test_a_process_that_cannot_join_does_not_start() -> None:
    environment = {"LD_PRELOAD": str(preload_library()), "WARPSERVE_SESSION": "/nonexistent"}
    done = subprocess.run(
        ["/bin/echo", "ran"], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 97
    assert done.stdout == ""
    assert done.stderr == (
        "warpserve: cannot join the session at /nonexistent: "
        "its token cannot be read (has the session ended?)\n"
    )


def test_without_a_session_the_library_does_nothing() -> None:
    script = "import time; t = time.time(); time.sleep(0.05); print(time.time() - t >= 0.05, t)"
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={"LD_PRELOAD": str(preload_library())},
        capture_output=True,
        text=True,
        check=True,
    )
    passed, started = done.stdout.split()
    assert passed == "True"
    assert abs(float(started) - Path("/proc/self").stat().st_mtime) < 86_400


@pytest.mark.parametrize("how", ["execv", "execvp", "posix_spawn", "subprocess"])
def test_a_static_binary_is_announced(
    warpserve: Warpserve, static_program: Callable[[str | Path], Path], how: str
) -> None:
    program = static_program("int main(void) { return 7; }")
    start = {
        "execv": f"os.fork() or os.execv({str(program)!r}, ['x'])",
        "execvp": f"os.environ.update(PATH={str(program.parent)!r}); "
        f"os.fork() or os.execvp({program.name!r}, ['x'])",
        "posix_spawn": f"os.posix_spawn({str(program)!r}, ['x'], {{}})",
        "subprocess": f"import subprocess; process = subprocess.Popen([{str(program)!r}])",
    }[how]
    script = f"import os, sys; {start}; sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))"
    outcome = warpserve.run([sys.executable, "-c", script])
    assert outcome.exit_code == 7
    assert f"warpserve: {program} is a static binary: its clock is not virtual" in outcome.stderr
    assert outcome.session.warnings["static_binary"] == 1


def test_a_thread_that_polls_to_notice_its_end_polls_seldom(
    warpserve: Warpserve, tmp_path: Path
) -> None:
    program = compile_native(tmp_path, CLIENTS / "idle_poller.c", "-rdynamic")
    outcome = warpserve.run([program])
    assert outcome.stdout.split() == ["3000000000", "30000000"]

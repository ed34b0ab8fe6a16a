"""What a session does when something dies, stops, is full, is missing or waits forever."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.harness import CLIENTS, RunningWarpserve, Warpserve, eventually, process_state
from warpserve.timekeeper import native
from warpserve.timekeeper.launcher import RunningSession
from warpserve.timekeeper.options import OnStall, SessionOptions
from warpserve.timekeeper.remote import RemoteSession
from warpserve.timekeeper.units import VirtualDuration, VirtualTime

SECOND = 1_000_000_000
DEADLOCK = """
import threading
a, b = threading.Lock(), threading.Lock()
both_have_one = threading.Barrier(2)
def lock(first, second):
    with first:
        both_have_one.wait()
        second.acquire()
threading.Thread(target=lock, args=(b, a)).start()
lock(a, b)
"""
NEVER_RELEASED = """
import ctypes, time
assert ctypes.CDLL(None).ws_hold_create(b"a step", ctypes.byref(ctypes.c_void_p())) == 0
time.sleep(1)
"""
STATES = [
    "running",
    "reading_the_clock",
    "in_a_jump",
    "in_poll",
    "in_endless_poll",
    "in_a_condition",
    "in_an_endless_read",
    "holding_the_gil",
    "holding_a_mutex",
    "holding_the_time",
    "stopped",
]


def python(source: str) -> list[str]:
    return [sys.executable, "-c", source]


# --- death --------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", STATES)
def test_a_killed_member_takes_its_waits_with_it(warpserve: Warpserve, state: str) -> None:
    outcome = warpserve.run([sys.executable, str(CLIENTS / "victim.py"), state])
    assert outcome.exit_code == 0, outcome.stderr
    result = json.loads(outcome.stdout)
    assert result["signal"] == signal.SIGKILL
    stands_still = state in ("running", "holding_the_time", "stopped")
    assert result["elapsed_ns"] == (5 if stands_still else 15) * SECOND
    assert [death.signal for death in outcome.session.killed] == [signal.SIGKILL]
    assert "was killed by signal 9 (Killed) at" in outcome.stderr
    assert outcome.session.virtual_ns < 3600 * SECOND  # what it waited for never came


def spinning_session(warpserve: Warpserve) -> RunningWarpserve:
    """A session in which time stands still because a member computes."""
    running = warpserve.start(python("while True: pass"))
    eventually(lambda: running.state().busy, "a member that computes")
    return running


def test_a_killed_timekeeper_ends_the_session(warpserve: Warpserve) -> None:
    running = spinning_session(warpserve)
    os.kill(running.timekeeper_pid(), signal.SIGKILL)
    outcome = running.wait()
    assert outcome.exit_code == 95
    assert "the Timekeeper died" in outcome.stderr


def test_a_killed_timekeeper_ends_sleeping_members_and_daemons(warpserve: Warpserve) -> None:
    script = "setsid sh -c 'while :; do :; done' & cat"
    running = warpserve.start(["/bin/sh", "-c", script], stdin=subprocess.PIPE)
    eventually(lambda: running.state().busy, "a daemon that computes")
    os.kill(running.timekeeper_pid(), signal.SIGKILL)
    outcome = running.wait()
    assert outcome.exit_code == 95


UNNAMED = """
import ctypes, pathlib, time
# As setproctitle does, by which processes of vLLM name themselves: over the environment.
start, end = map(int, pathlib.Path("/proc/self/stat").read_text().rpartition(")")[2].split()[47:49])
ctypes.memset(start, 0, end - start)
print("unnamed", flush=True)
while True: pass
"""


def test_a_killed_timekeeper_ends_members_whose_environment_is_gone(warpserve: Warpserve) -> None:
    script = f"setsid {sys.executable} -c '{UNNAMED}' & cat"
    running = warpserve.start(["/bin/sh", "-c", script], stdin=subprocess.PIPE)
    assert running.process.stdout is not None
    assert running.process.stdout.readline() == "unnamed\n"
    (unnamed,) = (process.id for process in running.state().members if "python" in process.name)
    os.kill(running.timekeeper_pid(), signal.SIGKILL)
    outcome = running.wait()
    assert outcome.exit_code == 95
    assert str(unnamed) in outcome.stderr
    # A zombie is nobody's: its new parent may not have asked for it.
    eventually(lambda: process_state(unnamed) in (None, "Z", "X"), "its end")


def test_a_killed_launcher_ends_the_session(warpserve: Warpserve) -> None:
    running = spinning_session(warpserve)
    running.process.kill()
    running.wait()
    eventually(lambda: not warpserve.leftovers(), "the end of the session")


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_a_signal_to_the_launcher_ends_the_session(warpserve: Warpserve, name: str) -> None:
    running = spinning_session(warpserve)
    running.process.send_signal(signal.Signals[name])
    outcome = running.wait()
    assert outcome.exit_code == 128 + signal.SIGTERM
    assert "ended 1 process(es) that were still running" in outcome.stderr
    assert outcome.session.ended_because == "the Timekeeper was asked to end"


def test_ctrl_c_is_for_the_members(warpserve: Warpserve) -> None:
    program = (
        "import signal, time\n"
        "try:\n"
        "    print('ready', flush=True)\n"
        "    while True: pass\n"
        "except KeyboardInterrupt:\n"
        "    time.sleep(60)\n"
        "    raise SystemExit(7)\n"
    )
    running = warpserve.start(python(program))
    assert running.process.stdout is not None
    assert running.process.stdout.readline() == "ready\n"
    os.killpg(running.process.pid, signal.SIGINT)
    outcome = running.wait()
    assert outcome.exit_code == 7, outcome.stderr
    assert outcome.session.virtual_ns == 60 * SECOND


def test_time_stands_still_while_a_member_is_stopped(warpserve: Warpserve) -> None:
    program = (
        "import os, signal, time\n"
        "time.sleep(1)\n"
        "os.kill(os.getpid(), signal.SIGSTOP)\n"
        "print(time.monotonic_ns())\n"
        "time.sleep(1)\n"
    )
    command = [*python(program)]
    running = warpserve.start(["/bin/sh", "-c", 'sleep 100 & "$@"; wait', "sh", *command])

    def stopped_member() -> int | None:
        busy = running.state().busy
        return busy.pid if busy and "stopped" in busy.why else None

    pid = eventually(stopped_member, "a stopped member that status names")
    assert process_state(pid) == "T"
    assert running.state().virtual_ns == 1 * SECOND
    os.kill(pid, signal.SIGCONT)
    outcome = running.wait()
    assert outcome.exit_code == 0, outcome.stderr
    assert int(outcome.stdout) == 1001 * SECOND
    assert outcome.session.virtual_ns == 100 * SECOND


def test_what_outlives_the_command_is_ended_and_adds_no_time(warpserve: Warpserve) -> None:
    """Not even one that will not be terminated: it goes on until it is killed."""
    script = "trap '' TERM; (while :; do sleep 1; done) & sleep 5.5"
    outcome = warpserve.run(["/bin/sh", "-c", script])
    assert outcome.exit_code == 0
    assert outcome.session.virtual_ns == 5_500_000_000
    assert outcome.session.ended_because == "its command has ended"
    assert "process(es) that were still running" in outcome.stderr


def test_what_is_killed_once_the_launcher_ends_it_is_no_news(
    runtime: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """An engine that is asked to end kills what it has started."""
    kill_and_end = "trap 'kill -9 $child; wait; exit 3' TERM"
    script = f"exec 3<&0; cat <&3 & child=$!; {kill_and_end}; echo ready; wait"
    read, write = os.pipe()
    with RunningSession(SessionOptions(on_stall=OnStall.WAIT)) as session:
        stdout = os.open(runtime / "stdout", os.O_WRONLY | os.O_CREAT)
        pid = session.spawn(["/bin/bash", "-c", script], stdio=(read, stdout, 2))
        eventually(lambda: (runtime / "stdout").read_text() == "ready\n", "a trap that is set")
        session.terminate(pid)
        assert session.wait(pid) == 3
        state = session.end()
    for descriptor in (read, write, stdout):
        os.close(descriptor)
    assert state is not None
    assert not state.killed
    assert "was killed" not in capfd.readouterr().err


# --- stalls -------------------------------------------------------------------------------------


def test_a_deadlock_is_reported_with_every_thread(warpserve: Warpserve) -> None:
    outcome = warpserve.run(python(DEADLOCK), options=["--stall-grace-ms=200"])
    assert outcome.exit_code == 96
    assert outcome.session.stalled
    assert outcome.session.ended_because == "stalled"
    report = outcome.stderr
    assert "the session has stalled at 0.000000000 s" in report
    assert report.count("waits in futex") == 2  # both threads, and for what
    assert "--on-stall=wait" in report


def test_a_hold_that_is_never_released_is_named(warpserve: Warpserve) -> None:
    outcome = warpserve.run(python(NEVER_RELEASED), options=["--stall-grace-ms=200"])
    assert outcome.exit_code == 96
    assert "holds the time" in outcome.stderr
    assert "waits in clock_nanosleep until 1.000000000 s" in outcome.stderr


def outlast_the_grace() -> None:
    """Of --stall-grace-ms=1. A quiet Timekeeper looks every 100 ms; to be asked ends its quiet."""
    time.sleep(0.5)


@pytest.mark.parametrize("option", ["--on-stall=wait", "--listen=tcp://127.0.0.1:*"])
def test_a_stall_can_be_waited_out(warpserve: Warpserve, option: str) -> None:
    """A session that listens waits for its first remote member."""
    options = ["--stall-grace-ms=1", option]
    running = warpserve.start(["cat"], options=options, stdin=subprocess.PIPE)
    eventually(lambda: running.state().members, "a member that waits")
    outlast_the_grace()
    assert running.process.stdin is not None
    running.process.stdin.write("at last\n")
    outcome = running.wait()
    assert (outcome.exit_code, outcome.stdout) == (0, "at last\n")


@pytest.mark.usefixtures("runtime")
def test_a_remote_member_at_work_is_no_stall() -> None:
    with (
        RunningSession(SessionOptions(stall_grace_ms=1)) as session,
        RemoteSession.connect(session.folder, name="far") as far,
    ):
        gpu = far.add_actor("gpu")
        session.spawn(["sleep", "100"])
        eventually(lambda: session.state().waiting, "a member that sleeps")
        outlast_the_grace()
        assert gpu.jump(VirtualDuration.from_ms(5)) == VirtualTime.from_ms(5)
        message = far.stamp(b"on a slow road")
        gpu.remove()
        outlast_the_grace()
        with far.accept(message) as accepted:
            assert accepted.sent_at == VirtualTime.from_ms(5)


# --- traces -------------------------------------------------------------------------------------


def test_a_trace_is_valid_and_has_virtual_times(warpserve: Warpserve, tmp_path: Path) -> None:
    trace = tmp_path / "trace.json"
    outcome = warpserve.run(
        ["/bin/sh", "-c", "sleep 1.25; sleep 0.5"], options=[f"--trace={trace}"]
    )
    assert outcome.exit_code == 0
    document = json.loads(trace.read_text())
    events = document["traceEvents"]
    names = {e["args"]["name"] for e in events if e["ph"] == "M" and e["name"] == "process_name"}
    assert {"sh", "sleep"} <= names
    waits = [(e["ts"], e["dur"], e["args"]["target_ns"]) for e in events if e["ph"] == "X"]
    assert waits == [(0.0, 1_250_000.0, 1_250_000_000), (1_250_000.0, 500_000.0, 1_750_000_000)]
    assert all(e["args"]["reached"] for e in events if e["ph"] == "X")


def test_a_full_disk_costs_the_trace_only(warpserve: Warpserve) -> None:
    outcome = warpserve.run(["sleep", "10"], options=["--trace=/dev/full"])
    assert outcome.exit_code == 0
    assert outcome.session.virtual_ns == 10 * SECOND
    assert "the trace is incomplete: No space left on device" in outcome.stderr


def test_a_trace_that_cannot_be_written_is_refused_at_the_start(warpserve: Warpserve) -> None:
    outcome = warpserve.run(["sleep", "10"], options=["--trace=/nowhere/trace.json"])
    assert outcome.exit_code == 2
    assert "cannot write the trace /nowhere/trace.json: No such file or directory" in outcome.stderr


# --- what passes through ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("script", "exit_code"), [("exit 0", 0), ("exit 42", 42), ("kill -9 $$", 128 + 9)]
)
def test_exit_codes_pass_through(warpserve: Warpserve, script: str, exit_code: int) -> None:
    assert warpserve.run(["/bin/sh", "-c", script]).exit_code == exit_code


def test_a_command_that_does_not_exist(warpserve: Warpserve) -> None:
    outcome = warpserve.run(["no-such-command", "argument"])
    assert outcome.exit_code == 127
    assert "warpserve: cannot run no-such-command" in outcome.stderr
    assert "No such file or directory" in outcome.stderr


def test_standard_streams_pass_through(warpserve: Warpserve) -> None:
    running = warpserve.start(
        ["/bin/sh", "-c", "cat; echo out; echo err >&2"],
        options=["--quiet"],
        stdin=subprocess.PIPE,
    )
    assert running.process.stdin is not None
    running.process.stdin.write("in\n" * 10_000)
    outcome = running.wait()
    assert outcome.stdout == "in\n" * 10_000 + "out\n"
    assert outcome.stderr == "err\n"


def test_large_arguments_and_environments_pass_through(warpserve: Warpserve) -> None:
    arguments = ["x" * 100_000] * 8
    env = {f"WST_{i}": "y" * 100_000 for i in range(4)}
    program = (
        "import os, sys\n"
        "print(sum(map(len, sys.argv[1:])), sum(len(v) for k, v in os.environ.items() "
        "if k.startswith('WST_')))\n"
    )
    outcome = warpserve.run([*python(program), *arguments], env=env)
    assert outcome.stdout.split() == ["800000", "400000"], outcome.stderr


def test_arguments_that_are_not_text_pass_through(warpserve: Warpserve) -> None:
    argument = os.fsdecode(b"\xff\xfe caf\xe9")
    program = "import os, sys; print(os.fsencode(sys.argv[1]).hex())"
    outcome = warpserve.run([*python(program), argument])
    assert bytes.fromhex(outcome.stdout.strip()) == os.fsencode(argument)


def test_members_get_no_descriptor_of_the_launcher(warpserve: Warpserve) -> None:
    outcome = warpserve.run(["/bin/sh", "-c", "ls /proc/self/fd | sort -n | tr '\\n' ' '"])
    numbers = [int(number) for number in outcome.stdout.split()]
    # 3 is the folder that ls reads; the library's own connection is far up.
    assert [number for number in numbers if number < 100] == [0, 1, 2, 3]


# --- options ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--listen=example.org", "--listen: must be tcp://ADDRESS:PORT, not 'example.org'"),
        ("--stall-grace-ms=0", "--stall-grace-ms: Input should be greater than or equal to 1"),
        ("--start-time=yesterday", "--start-time is 'now' or ISO 8601"),
    ],
)
def test_a_wrong_option_is_named(warpserve: Warpserve, option: str, message: str) -> None:
    outcome = warpserve.run(["true"], options=[option])
    assert outcome.exit_code == 2
    assert message in outcome.stderr


def test_a_summary_that_cannot_be_written(warpserve: Warpserve) -> None:
    outcome = warpserve.cli("run", "--summary=/nowhere/summary.json", "--", "true")
    assert outcome.exit_code == 2
    assert "cannot write the summary" in outcome.stderr
    assert "Traceback" not in outcome.stderr


# --- session folders ----------------------------------------------------------------------------


def test_a_folder_that_others_can_enter_is_refused(warpserve: Warpserve) -> None:
    folder = warpserve.runtime / f"warpserve-{os.getuid()}"
    folder.mkdir(mode=0o755)
    folder.chmod(0o755)
    message = f"{folder} must be a folder of yours that nobody else can enter"
    for outcome in (warpserve.run(["true"]), warpserve.cli("status")):
        assert outcome.exit_code == 2
        assert message in outcome.stderr
        assert "Traceback" not in outcome.stderr
    found = warpserve.cli("doctor", "--json")
    assert found.exit_code == 1, found.stderr
    [finding] = [f for f in json.loads(found.stdout) if f["what"] == "sessions folder"]
    assert finding["verdict"] == "broken"
    assert message in finding["detail"]


def test_a_session_that_has_ended_cannot_be_joined(warpserve: Warpserve) -> None:
    environment = {
        **os.environ,
        "LD_PRELOAD": str(native.preload_library()),
        "WARPSERVE_SESSION": str(warpserve.runtime / "ended"),
    }
    done = subprocess.run(
        ["/bin/true"], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 97
    assert f"cannot join the session at {warpserve.runtime}/ended" in done.stderr
    assert "has the session ended?" in done.stderr


def test_a_second_timekeeper_is_refused_and_the_first_goes_on(warpserve: Warpserve) -> None:
    running = warpserve.start(["cat"], options=["--on-stall=wait"], stdin=subprocess.PIPE)
    folder = running.session_folder()
    second = subprocess.run(
        [native.timekeeper_executable(), f"--folder={folder}"],
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    assert second.returncode == 2
    assert "another Timekeeper" in second.stderr
    assert str(running.timekeeper_pid()) in second.stderr or str(folder) in second.stderr
    assert running.state().members
    assert running.wait().exit_code == 0


def test_200_sessions_leave_nothing_behind(warpserve: Warpserve) -> None:
    before = set(Path("/dev/shm").iterdir())
    done = subprocess.run(
        [sys.executable, "-P", str(CLIENTS / "many_sessions.py"), "200", "4"],
        env=warpserve.environment(None),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"codes": [0] * 200, "leaked_descriptors": 0}
    assert warpserve.leftovers() == []
    # Other tests beside this one have shared memory, too, and use it.
    eventually(lambda: not (set(Path("/dev/shm").iterdir()) - before - mapped_files()), "no more")


def mapped_files() -> set[Path]:
    """By any process."""
    found = set()
    for maps in Path("/proc").glob("[0-9]*/maps"):
        with contextlib.suppress(OSError):
            lines = maps.read_text().splitlines()
            found |= {Path(line.split()[-1]) for line in lines if "/" in line}
    return found

"""The figures of the Timekeeper: clock reads, jumps, rounds, idle cost, fast-forward."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from tests.benchmarks.figure import Figure
from warpserve.timekeeper.launcher import RunningSession
from warpserve.timekeeper.native import zmq_library
from warpserve.timekeeper.options import Clock, Guard, OnStall, SessionOptions

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build" / "release"
CPU_WINDOW_S = 5.0

_PYTHON_READ = """
import statistics, time
from warpserve.timekeeper.session import Session
session, samples = Session.join(), []
monotonic = time.monotonic
for _ in range(500):
    begin = session.host_now()
    for _ in range(1000):
        monotonic()
    samples.append((session.host_now() - begin).ns / 1000)
    time.sleep(1e-9)
print(statistics.median(samples))
"""
# As much as the loop itself costs, so that it can be taken off.
_PYTHON_EMPTY_LOOP = _PYTHON_READ.replace("        monotonic()", "        pass")
_PYTHON_SPIN = "n = 0\nwhile True: n += 1"


def figures() -> Iterator[Figure]:
    """All figures, measured one after the other."""
    yield Figure("read the clock, C++", _in_session(_native("read")), "ns", 40)
    python_ns = _in_session(_python(_PYTHON_READ)) - _in_session(_python(_PYTHON_EMPTY_LOOP))
    yield Figure("read the clock, Python's time.monotonic()", python_ns, "ns", 150)
    for threads, bar in ((1, None), (60, 150.0), (240, None)):
        us = _in_session(_native("jump", str(threads - 1)))
        yield Figure(f"lone jump, settle, {threads} member threads, median", us, "us", bar)
    barrier = SessionOptions(guard=Guard.BARRIER)
    us = _in_session(_native("actor"), barrier)
    yield Figure("lone jump, barrier, shared memory, median", us, "us", 40)
    yield from _rounds()
    yield Figure("Timekeeper of an idle session", _cpu_percent(["sleep", "infinity"]), "% CPU", 0.5)
    spinning = _cpu_percent([sys.executable, "-c", _PYTHON_SPIN])
    yield Figure("Timekeeper while waiting for settle", spinning, "% CPU", 5)
    yield Figure("30 virtual days, a request a minute", _a_month_s(), "s", 60)


def _native(*arguments: str) -> list[str]:
    return [str(BUILD / "tests" / "benchmarks" / "clock_benchmark"), *arguments]


def _python(program: str) -> list[str]:
    return [sys.executable, "-c", program]


def _in_session(command: list[str], options: SessionOptions | None = None) -> float:
    """The number that `command` prints when run as a member."""
    read_end, write_end = os.pipe()
    with RunningSession(options) as session:
        pid = session.spawn(command, stdio=(0, write_end, 2))
        os.close(write_end)
        with os.fdopen(read_end) as output:
            text = output.read()
        if session.wait(pid) != 0:
            raise RuntimeError(f"{command} failed")
    return float(text)


def _rounds() -> Iterator[Figure]:
    bars = {1: 200.0, 256: 4_000.0}
    program = BUILD / "tests" / "native" / "wire" / "round_benchmark"
    env = os.environ | {"WARPSERVE_LIBZMQ": str(zmq_library())}
    output = subprocess.run([program], check=True, capture_output=True, text=True, env=env).stdout
    for line in output.splitlines():
        row = json.loads(line)
        actors = row["actors"]
        name = "lone jump" if actors == 1 else f"round of {actors:,} actors"
        yield Figure(f"{name}, barrier, ZeroMQ, median", row["median_us"], "us", bars.get(actors))


def _cpu_percent(command: list[str]) -> float:
    """Processor time of the Timekeeper, of one core, while `command` runs as a member."""
    with RunningSession(SessionOptions(clock=Clock.EXACT, on_stall=OnStall.WAIT)) as session:
        session.spawn(command, stdio=(0, 2, 2))
        if command[0] == "sleep":
            _hold_time(session)
        time.sleep(1.0)
        before = _cpu_s(session.timekeeper_pid)
        time.sleep(CPU_WINDOW_S)
        return (_cpu_s(session.timekeeper_pid) - before) / CPU_WINDOW_S * 100


def _hold_time(session: RunningSession) -> None:
    program = (
        "import signal\n"
        "from warpserve.timekeeper.session import Session\n"
        "hold = Session.join().hold('idle')\n"
        "signal.pause()\n"
    )
    session.spawn(_python(program))


def _cpu_s(pid: int) -> float:
    # fs/proc/array.c: fields 14 and 15 are utime and stime in clock ticks
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _a_month_s() -> float:
    example = ROOT / "docs" / "examples" / "a_month.py"
    begin = time.monotonic()
    with RunningSession() as session:
        session.wait(session.spawn([sys.executable, str(example)], stdio=(0, 2, 2)))
        return time.monotonic() - begin

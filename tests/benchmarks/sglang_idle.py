"""`python -m tests.benchmarks.sglang_idle`: what an SGLang server costs that nobody asks for
anything.

Under the clock `sleep`, by process, in 20 s; and a virtual hour under `exact`. Writes
docs/results/sglang-idle.md.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.benchmarks.members import running_member
from tests.benchmarks.page import RESULTS, machine, today
from warpserve.bench.host_cost import ProcessCost
from warpserve.bench.models import model_named
from warpserve.members import MemberOptions
from warpserve.patches.engines import EngineRequirement, EngineStore
from warpserve.timekeeper.launcher import RunningSession
from warpserve.timekeeper.options import Clock

BAR = 0.05
"""Of a core, all processes together."""
IDLE_S = {Clock.SLEEP: 20.0, Clock.EXACT: 3_600.0}
LOOK_S = 0.02
_CLIENT = Path(__file__).parents[1] / "clients" / "idle_server.py"


@dataclass(frozen=True)
class Idle:
    """A server between ready and stopped."""

    wall_s: float
    processes: tuple[ProcessCost, ...]

    @property
    def cpu_s(self) -> float:
        return sum(process.cpu_s for process in self.processes)


def main() -> None:
    found = {}
    for clock, idle_s in IDLE_S.items():
        with TemporaryDirectory() as folder:
            found[clock] = idle(clock, idle_s, Path(folder))
        print(clock.value, f"{found[clock].cpu_s:.2f} s of {found[clock].wall_s:.2f} s", flush=True)
    (RESULTS / "sglang-idle.md").write_text(page(found))
    used = found[Clock.SLEEP].cpu_s / found[Clock.SLEEP].wall_s
    if used > BAR:
        raise SystemExit(f"{used:.1%} of a core, more than {BAR:.0%}")


def idle(clock: Clock, idle_s: float, folder: Path) -> Idle:
    python = EngineStore().get(EngineRequirement.parse("sglang==0.5.23")).python
    command = [
        str(python), str(_CLIENT), str(folder), str(idle_s),
        str(python), "-m", "sglang.launch_server", "--host", "127.0.0.1",
        "--model-path", model_named("llama-3.1-8b").reference, "--skip-server-warmup",
    ]  # fmt: skip
    asked = MemberOptions(gpu="h100-sxm", predictor="constant:20ms")
    with running_member(command, asked, clock, folder / "log") as (session, _, meter):
        await_file(session, folder / "began")
        meter.begin()
        await_file(session, folder / "ended")
        meter.look()
        wall_s = meter.wall_s
        costs = meter.costs({session.timekeeper_pid: "Timekeeper"})
        return Idle(wall_s, tuple(costs))


def await_file(session: RunningSession, path: Path) -> None:
    while not path.exists():
        if (exited := session.wait_exited(LOOK_S)) is not None and not path.exists():
            log = (path.parent / "log").read_text(errors="replace")
            raise SystemExit(f"{log[-3_000:]}\nexit code {exited.exit_code}")


def page(found: dict[Clock, Idle]) -> str:
    waits, hour = found[Clock.SLEEP], found[Clock.EXACT]
    rows = "".join(
        f"| {process.name} | {process.cpu_s / waits.wall_s:.2%} | {process.cpu_s:.2f} s |\n"
        for process in waits.processes
        if process.cpu_s > 0
    )
    return f"""\
# SGLang without work

Written by `python -m tests.benchmarks.sglang_idle` on {today()}: {machine()}.
Load average at the end: {os.getloadavg()[1]:.1f}.

A server of SGLang 0.5.23, Llama-3.1-8B on an H100, that nobody asks for anything.

Under the clock `sleep`, in {waits.wall_s:.0f} s: {waits.cpu_s / waits.wall_s:.2%} of a core in all
processes together (bar: {BAR:.0%}).

| process | of a core | processor time |
|---|---|---|
{rows}
Under `exact`, an hour of virtual time took {hour.wall_s:.2f} s, and {hour.cpu_s:.2f} s of processor
time in all processes together.
"""


if __name__ == "__main__":
    main()

"""`python -m tests.benchmarks.harness`: virtual time beside an engine that waits for no GPU.

`vllm bench throughput`, all requests at the start: in `exact` with steps of 20 ms, and in `sleep`
with steps of 1 ns, where host time passes, nobody waits and nothing jumps. The engine core is in
the process that asks (VLLM_ENABLE_V1_MULTIPROCESSING=0), so that it has all requests before its
first step: in a process of its own it begins with the first of them, and in `sleep` its steps would
be others. Writes docs/results/harness.md.
"""

from __future__ import annotations

import json
import os
import statistics
import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.benchmarks.members import running_member
from tests.benchmarks.page import RESULTS, machine, today
from warpserve.bench.host_cost import HostMeter, ProcessCost
from warpserve.bench.models import model_named
from warpserve.patches.engines import EngineRequirement, EngineStore
from warpserve.timekeeper.cli import MemberOptions
from warpserve.timekeeper.launcher import RunningSession
from warpserve.timekeeper.options import Clock

BAR = 1.25
REPEATS = 3
REQUESTS = 256
WAYS = {"exact": (Clock.EXACT, "constant:20ms"), "skipped": (Clock.SLEEP, "constant:1ns")}
LOOK_S = 0.01


@dataclass(frozen=True)
class Served:
    """One call of the benchmark."""

    wall_s: float
    """From its first step to its last."""
    batches: tuple[str, ...]
    """Of each step, what it computed."""
    processes: tuple[ProcessCost, ...]

    @property
    def step_ms(self) -> float:
        return self.wall_s * 1e3 / len(self.batches)

    def cpu_ms(self, process: ProcessCost) -> float:
        """Of one process, a step."""
        return process.cpu_s * 1e3 / len(self.batches)


def main() -> None:
    runs: dict[str, list[Served]] = {way: [] for way in WAYS}
    for _ in range(REPEATS):
        for way, (clock, predictor) in WAYS.items():
            with TemporaryDirectory() as folder:
                runs[way].append(serve(clock, predictor, Path(folder)))
            print(way, runs[way][-1].wall_s, runs[way][-1].step_ms, flush=True)
    if len({served.batches for way in runs.values() for served in way}) > 1:
        raise SystemExit("the steps differ")
    (RESULTS / "harness.md").write_text(page(runs))


def serve(clock: Clock, predictor: str, folder: Path) -> Served:
    command = [
        str(EngineStore().get(EngineRequirement.parse("vllm==0.24.0")).python.parent / "vllm"),
        "bench", "throughput", "--model", model_named("llama-3.1-8b").reference,
        "--dataset-name", "random", "--num-prompts", str(REQUESTS),
        "--random-input-len", "512", "--random-output-len", "256", "--random-range-ratio", "0.5",
        "--seed", "0",
    ]  # fmt: skip
    steps = folder / "steps"
    asked = MemberOptions(gpu="h100-sxm", predictor=predictor, step_log=steps)
    one_process = {"VLLM_ENABLE_V1_MULTIPROCESSING": "0"}
    with running_member(command, asked, clock, folder / "log", one_process) as running:
        session, command_pid, meter = running
        wall_s = seconds_of_growth(session, steps, meter)
        names = {session.timekeeper_pid: "Timekeeper", command_pid: "vllm bench throughput"}
        return Served(wall_s, batches_of(steps), tuple(meter.costs(names)))


def seconds_of_growth(session: RunningSession, steps: Path, meter: HostMeter) -> float:
    """From the first line of a step log to the last, until the command ends."""
    first_s = last_s = 0.0
    size = 0
    while session.wait_exited(LOOK_S) is None:
        found = sum(file.stat().st_size for file in steps.iterdir())
        if found == size:
            continue
        size, last_s = found, time.monotonic()
        if not first_s:
            first_s = last_s
            meter.begin()
        meter.look()
    return last_s - first_s


def batches_of(steps: Path) -> tuple[str, ...]:
    """Of the only step log in a folder."""
    (file,) = steps.iterdir()
    return tuple(str(json.loads(line)["requests"]) for line in file.read_text().splitlines())


def page(runs: dict[str, list[Served]]) -> str:
    pairs = list(zip(runs["exact"], runs["skipped"], strict=True))
    ratios = [exact.wall_s / skipped.wall_s for exact, skipped in pairs]
    rows = "".join(
        f"| {exact.wall_s:.2f} s | {exact.step_ms:.2f} ms | {skipped.wall_s:.2f} s |"
        f" {skipped.step_ms:.2f} ms | {ratio:.2f} |\n"
        for (exact, skipped), ratio in zip(pairs, ratios, strict=True)
    )
    return f"""\
# What virtual time costs beside the engine

Written by `python -m tests.benchmarks.harness` on {today()}: {machine()}.
Load average at the end: {os.getloadavg()[1]:.1f}.

`vllm bench throughput` of vLLM 0.24.0, Llama-3.1-8B on an H100: {REQUESTS} requests at the start,
512 and 256 tokens in the mean, {len(pairs[0][0].batches)} steps. In `exact` steps take 20 ms of
virtual time; *skipped* is `sleep` with steps of 1 ns: the same engine, patches and steps, and
nobody waits. Wall time from the first step to the last:

| `exact` | a step | GPU skipped | a step | ratio (bar: {BAR:g}) |
|---|---|---|---|---|
{rows}
Median ratio: {statistics.median(ratios):.2f}.

Processor time a step, in the last pair of runs:

| way | process | CPU a step |
|---|---|---|
{cost_rows("exact", pairs[-1][0])}{cost_rows("GPU skipped", pairs[-1][1])}"""


def cost_rows(way: str, served: Served) -> str:
    return "".join(
        f"| {way} | {process.name} | {served.cpu_ms(process):.2f} ms |\n"
        for process in served.processes
        if process.cpu_s > 0
    )


if __name__ == "__main__":
    main()

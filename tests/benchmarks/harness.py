"""`python -m tests.benchmarks.harness [vllm|sglang]`: virtual time beside an engine that waits for
no GPU.

An engine's own benchmark of throughput, all requests at the start: in `exact` with steps of 20 ms,
and in `sleep` with steps of 1 ns, where host time passes, nobody waits and nothing jumps. vLLM's
engine core is in the process that asks (VLLM_ENABLE_V1_MULTIPROCESSING=0), so that it has all
requests before its first step: in a process of its own it begins with the first of them, and in
`sleep` its steps would be others. SGLang's scheduler is always a process of its own: there the
steps count from when all requests have come (in `exact` the first one waits for all of that, on the
host), and times are compared by step. Writes docs/results/harness.md or harness-sglang.md.
"""

from __future__ import annotations

import argparse
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
from warpserve.members import MemberOptions
from warpserve.patches.engines import EngineRequirement, EngineStore
from warpserve.timekeeper.launcher import RunningSession
from warpserve.timekeeper.options import Clock

BAR = 1.25
REPEATS = 5
INPUT_TOKENS, OUTPUT_TOKENS = 512, 256
WAYS = {"exact": (Clock.EXACT, "constant:20ms"), "skipped": (Clock.SLEEP, "constant:1ns")}
LOOK_S = 0.01
COST_LOOK_S = 0.25
"""What the processes cost is read seldom: that takes milliseconds of a core."""


@dataclass(frozen=True)
class Engine:
    requirement: str
    page: str
    program: str
    """Its benchmark's name."""
    requests: int
    """So many that a run takes seconds."""
    arguments: tuple[str, ...]
    environment: dict[str, str]
    counted_from: int
    """A step that has all requests before it. Before the first one they have come where all runs
    have the same steps.
    """

    def command(self, folder: Path) -> list[str]:
        python = EngineStore().get(EngineRequirement.parse(self.requirement)).python
        program, *words = self.program.split()
        model = "--model-path" if program == "python" else "--model"
        return [
            str(python.parent / program), *words, model, model_named("llama-3.1-8b").reference,
            "--num-prompts", str(self.requests),
            *(argument.format(texts=folder / "texts.json") for argument in self.arguments),
        ]  # fmt: skip


ENGINES = {
    "vllm": Engine(
        "vllm==0.24.0",
        "harness",
        "vllm bench throughput",
        256,
        (
            "--dataset-name", "random",
            "--random-input-len", str(INPUT_TOKENS), "--random-output-len", str(OUTPUT_TOKENS),
            "--random-range-ratio", "0.5", "--seed", "0",
        ),
        {"VLLM_ENABLE_V1_MULTIPROCESSING": "0"},
        counted_from=0,
    ),
    "sglang": Engine(
        "sglang==0.5.23",
        "harness-sglang",
        "python -m sglang.benchmark.offline_throughput",
        1024,
        (
            "--dataset-name", "random", "--dataset-path", "{texts}",
            "--random-input", str(INPUT_TOKENS), "--random-output", str(OUTPUT_TOKENS),
            "--random-range-ratio", "0.5", "--seed", "0", "--skip-warmup",
        ),
        {},
        counted_from=100,
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Served:
    """One call of the benchmark."""

    wall_s: float
    """From the first step that counts to the last."""
    batches: tuple[str, ...]
    """Of each step that counts, what it computed."""
    processes: tuple[ProcessCost, ...]

    @property
    def step_ms(self) -> float:
        return self.wall_s * 1e3 / len(self.batches)

    def cpu_ms(self, process: ProcessCost) -> float:
        """Of one process, a step."""
        return process.cpu_s * 1e3 / len(self.batches)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("engine", nargs="?", choices=ENGINES, default="vllm")
    engine = ENGINES[parser.parse_args().engine]
    runs: dict[str, list[Served]] = {way: [] for way in WAYS}
    for _ in range(REPEATS):
        for way, (clock, predictor) in WAYS.items():
            with TemporaryDirectory() as folder:
                runs[way].append(serve(engine, clock, predictor, Path(folder)))
            print(way, runs[way][-1].wall_s, runs[way][-1].step_ms, flush=True)
    if not engine.counted_from and len({run.batches for way in runs.values() for run in way}) > 1:
        raise SystemExit("the steps differ")
    (RESULTS / f"{engine.page}.md").write_text(page(engine, runs))


def write_texts(file: Path, count: int) -> None:
    """In ShareGPT's form, which SGLang's benchmark would download: words for its random prompts."""
    turns = [
        [{"value": " ".join(str(number * word) for word in range(1, 60))}] * 2
        for number in range(1, count + 1)
    ]
    file.write_text(json.dumps([{"conversations": pair} for pair in turns]))


def serve(engine: Engine, clock: Clock, predictor: str, folder: Path) -> Served:
    steps = folder / "steps"
    asked = MemberOptions(gpu="h100-sxm", predictor=predictor, step_log=steps)
    log = folder / "log"
    write_texts(folder / "texts.json", engine.requests)
    with running_member(engine.command(folder), asked, clock, log, engine.environment) as running:
        session, command_pid, meter = running
        wall_s = seconds_of_growth(session, steps, engine.counted_from, meter)
        names = {session.timekeeper_pid: "Timekeeper", command_pid: engine.program}
        if not wall_s:
            raise SystemExit(f"no steps: {log.read_text()[-2000:]}")
        return Served(wall_s, batches_of(steps)[engine.counted_from :], tuple(meter.costs(names)))


def seconds_of_growth(
    session: RunningSession, steps: Path, counted_from: int, meter: HostMeter
) -> float:
    """From a step in the step log to the last one, until the command ends."""
    first_s = last_s = costs_s = 0.0
    size = 0
    while session.wait_exited(LOOK_S) is None:
        found = sum(file.stat().st_size for file in steps.glob("*"))
        if found == size:
            continue
        size, last_s = found, time.monotonic()
        if not first_s:
            if len(lines_of(steps)) <= counted_from:
                continue
            first_s = last_s
            meter.begin()
        if last_s - costs_s > COST_LOOK_S:
            costs_s = last_s
            meter.look()
    return last_s - first_s


def lines_of(steps: Path) -> list[str]:
    """Of the only step log in a folder."""
    (file,) = steps.iterdir()
    return file.read_text().splitlines()


def batches_of(steps: Path) -> tuple[str, ...]:
    """What each step computed."""
    return tuple(str(json.loads(line)["requests"]) for line in lines_of(steps))


def page(engine: Engine, runs: dict[str, list[Served]]) -> str:
    pairs = list(zip(runs["exact"], runs["skipped"], strict=True))
    ratios = [exact.step_ms / skipped.step_ms for exact, skipped in pairs]
    rows = "".join(
        f"| {exact.wall_s:.2f} s | {len(exact.batches)} | {exact.step_ms:.2f} ms |"
        f" {skipped.wall_s:.2f} s | {len(skipped.batches)} | {skipped.step_ms:.2f} ms |"
        f" {ratio:.2f} |\n"
        for (exact, skipped), ratio in zip(pairs, ratios, strict=True)
    )
    same = "the same engine, patches and steps, and nobody waits"
    counted = "from the first step to the last"
    if engine.counted_from:
        same = "the same engine and patches, and nobody waits, so that a few first steps differ"
        counted = f"from step {engine.counted_from}, when all requests are there, to the last"
    name, _, version = engine.requirement.partition("==")
    command = "python -m tests.benchmarks.harness" + ("" if name == "vllm" else f" {name}")
    return f"""\
# What virtual time costs beside the engine

Written by `{command}` on {today()}: {machine()}.
Load average at the end: {os.getloadavg()[1]:.1f}.

`{engine.program}` of {name} {version}, Llama-3.1-8B on an H100:
{engine.requests:,} requests at the start, {INPUT_TOKENS} and {OUTPUT_TOKENS} tokens in the mean.
In `exact` steps take 20 ms of virtual time; *skipped* is `sleep` with steps of 1 ns: {same}.
Wall time {counted}:

| `exact` | steps | a step | GPU skipped | steps | a step | ratio, a step (bar: {BAR:g}) |
|---|---|---|---|---|---|---|
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

"""`python -m tests.benchmarks.speed`: what a step costs the host, streamed and with --fast.

The run that LLMServingSim recorded on an RTX PRO 6000, again: 300 requests of ShareGPT's lengths,
10 a second, up to 128 running, with steps as aiconfigurator predicts them. Writes
docs/results/speed.md.
"""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.benchmarks.accuracy.cases import CASES
from tests.benchmarks.page import RESULTS, machine, today
from warpserve.bench.real.read import read_run
from warpserve.bench.replay import arrivals_file, run_twin
from warpserve.bench.run_folder import RunFolder
from warpserve.bench.summary import Summary
from warpserve.bench.twin import twin_of

WALL_BARS_S = {"streamed": 20.0, "--fast": 6.0}
SHOWN_CPU_MS = 0.01


def main() -> None:
    summaries, times = {}, set()
    with TemporaryDirectory() as name:
        for client, fast in (("streamed", False), ("--fast", True)):
            folder = Path(name) / client.strip("-")
            summaries[client] = replayed(folder, fast)
            times.add(RunFolder(folder).requests.read_text())
            print(client, summaries[client].host, flush=True)
    if len(times) > 1:
        raise SystemExit("--fast tells other times than the client that streams")
    (RESULTS / "speed.md").write_text(page(summaries))


def replayed(folder: Path, fast: bool) -> Summary:
    """The recorded run's requests, as `warpserve replay` sends them to vLLM 0.24.0."""
    case = CASES[0]
    twin = twin_of(
        read_run(case.real), arrivals_file(folder),
        gpu=case.gpu, predictor=case.predictor, engine="vllm==0.24.0", fast=fast,
    )  # fmt: skip
    return run_twin(twin, folder)


def page(summaries: dict[str, Summary]) -> str:
    return f"""\
# What a step costs the host

Written by `python -m tests.benchmarks.speed` on {today()}: {machine()}.
Load average at the end: {os.getloadavg()[1]:.1f}; other work on the machine makes all of it slower.

The run that LLMServingSim recorded on an RTX PRO 6000, replayed with vLLM 0.24.0: Llama-3.1-8B, 300
requests of ShareGPT's lengths, 10 a second, up to 128 running, steps as aiconfigurator predicts
them; tokens streamed to `vllm bench serve`, and `--fast`. Counted is from the first step to the
client's end; *around it* the engine and the client start and end. Both tell the same TTFT, TPOT and
ITL of every request, to the last digit.

| client | steps | wall time | bar | wall time a step | CPU a step | virtual time | around it |
|---|---|---|---|---|---|---|---|
{"".join(row(name, summary) for name, summary in summaries.items())}
Processor time a step and resident memory, with what is shared, by process:

| client | process | CPU a step | resident |
|---|---|---|---|
{"".join(process_rows(name, summary) for name, summary in summaries.items())}"""


def row(name: str, summary: Summary) -> str:
    serving = summary.host.serving
    cpu_ms = sum(process.cpu_s for process in serving.processes) * 1e3 / serving.steps
    a_step_ms = serving.wall_s * 1e3 / serving.steps
    return (
        f"| {name} | {serving.steps:,} | {serving.wall_s:.1f} s | {WALL_BARS_S[name]:g} s |"
        f" {a_step_ms:.2f} ms | {cpu_ms:.2f} ms | {summary.host.virtual_s:.1f} s |"
        f" {summary.host.wall_s - serving.wall_s:.1f} s |\n"
    )


def process_rows(name: str, summary: Summary) -> str:
    serving = summary.host.serving
    return "".join(
        f"| {name} | {process.name} | {process.cpu_s * 1e3 / serving.steps:.2f} ms |"
        f" {process.resident_bytes / 2**20:,.0f} MiB |\n"
        for process in serving.processes
        if process.cpu_s * 1e3 / serving.steps >= SHOWN_CPU_MS
    )


if __name__ == "__main__":
    main()

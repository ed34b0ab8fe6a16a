"""`python -m tests.benchmarks.ablation`: the clocks `exact` and `live` beside `sleep`.

The paper's ablation: static batch times, Poisson arrivals of ShareGPT lengths, vLLM's own server
and client. For each batch time and clock, one engine serves all rates, one client after the other.
Writes docs/results/ablation.md and ablation.svg. `sleep` takes as long as a real GPU would, so
options choose a part of it.
"""

from __future__ import annotations

import argparse
import itertools
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from matplotlib.figure import Figure

from tests.benchmarks.page import RESULTS, machine, today
from warpserve.bench import clients, results
from warpserve.bench.config import RunConfig
from warpserve.bench.engine import EngineLaunch, RunningEngine
from warpserve.bench.experiment import planned_of
from warpserve.bench.results import RequestResult
from warpserve.bench.run_folder import RunError, RunFolder
from warpserve.timekeeper.options import Clock

PERCENTILES = (50, 90, 99)
METRICS = ("ttft", "tpot")
LIVE_BAR = 0.05
# At 4 requests a second and more half of it (exact, streamed, 2 cores).
SPEED_UP_BARS = {10: 7.0, 20: 14.0, 40: 25.0}


@dataclass(frozen=True)
class Served:
    """One client's run."""

    step_ms: int
    rate: float
    clock: Clock
    requests: list[RequestResult]
    wall_s: float
    """From the client's first step, one of its trial request, to its end."""

    def percentiles_ms(self, metric: str) -> list[float]:
        values_s = [getattr(request, f"{metric}_s") for request in self.requests]
        found_s = [value_s for value_s in values_s if value_s is not None]
        return [float(value) for value in np.percentile(np.asarray(found_s) * 1e3, PERCENTILES)]


def main() -> None:
    options = read_options()
    served, load_at_start = [], os.getloadavg()[1]
    for step_ms in options.steps_ms:
        for clock in (Clock.SLEEP, Clock.EXACT, Clock.LIVE):
            with TemporaryDirectory() as folder:
                for run in serve(step_ms, clock, options.rates, options.requests, Path(folder)):
                    served.append(run)
                    print(step_ms, clock.value, run.rate, f"{run.wall_s:.1f} s", flush=True)
        # After each batch time: all of them take hours.
        (RESULTS / "ablation.md").write_text(page(served, options.requests, load_at_start))
        draw(served).savefig(RESULTS / "ablation.svg", metadata={"Date": None})


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps-ms", type=int, nargs="+", default=[5, 10, 20, 40])
    parser.add_argument("--rates", type=float, nargs="+", default=[0.5, 1, 2, 4, 8])
    parser.add_argument("--requests", type=int, default=200)
    return parser.parse_args()


def serve(
    step_ms: int, clock: Clock, rates: list[float], requests: int, folder: Path
) -> Iterator[Served]:
    """One engine, and a client for each rate."""
    config = RunConfig(
        model="llama-3.1-8b",
        gpu="h100-sxm:1",
        predictor=f"constant:{step_ms}ms",
        clock=clock,
        num_requests=requests,
        engine_flags=("--no-enable-prefix-caching",),  # each client sends the same prompts
    )
    launch = EngineLaunch(config)
    steps = folder / "steps"
    with launch.started(folder / "engine.log", steps) as engine:
        for rate in rates:
            run = RunFolder.create(folder / f"{rate:g}")
            of_rate = config.model_copy(update={"rate": rate})
            wall_s = run_client(of_rate, launch, engine, run, steps)
            found = results.read_vllm_results(run.client_result)
            yield Served(step_ms, rate, clock, found, wall_s)
        engine.stop()


def run_client(
    config: RunConfig, launch: EngineLaunch, engine: RunningEngine, folder: RunFolder, steps: Path
) -> float:
    """Host time from the client's first step to its end."""
    planned = planned_of(config)
    command = clients.prepare_client(config, planned, launch, folder, as_stock=True)
    client = engine.spawn(command, folder.client_log)
    begin_s, earlier_bytes = time.monotonic(), size_bytes(steps)
    while (exited := engine.wait(0.05)) is None or exited.pid != client:
        if size_bytes(steps) == earlier_bytes:
            begin_s = time.monotonic()
    if exited.exit_code != 0:
        raise RunError(folder.client_log.read_text(errors="replace")[-2_000:])
    return time.monotonic() - begin_s


def size_bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.iterdir())


def page(served: list[Served], requests: int, load_at_start: float) -> str:
    by_case = {(run.step_ms, run.rate, run.clock): run for run in served}
    cases = sorted({(run.step_ms, run.rate) for run in served})
    worst = max(
        abs(error)
        for step_ms, rate in cases
        for metric in METRICS
        for error in errors(by_case, step_ms, rate, Clock.LIVE, metric)
    )
    bars = ", ".join(f"{bar:g} at {step_ms} ms" for step_ms, bar in SPEED_UP_BARS.items())
    rows = [
        f"| {step_ms} ms | {rate:g} | {clock.value} |"
        f" {comparison(by_case, step_ms, rate, clock)} |\n"
        for (step_ms, rate), clock in itertools.product(cases, (Clock.EXACT, Clock.LIVE))
    ]
    return f"""\
# Exact and live clocks beside sleeping

Written by `python -m tests.benchmarks.ablation` on {today()}: {machine()}.
Load average of 5 minutes: {load_at_start:.1f} at the start, {os.getloadavg()[1]:.1f} at the end.

vLLM 0.24.0 with Llama-3.1-8B, each batch of which takes the same time; {requests} requests of
ShareGPT's lengths, Poisson arrivals, tokens streamed to `vllm bench serve`. Errors are relative to
the clock `sleep` in the same run, which waits as long as a GPU would. `exact` does not count the
host's own time, which `sleep` and `live` do: its error is the host's share. The speed-up is that of
wall time, from the client's first step (of its trial request) to its end. Other work on the machine
disturbs `sleep` and `live`, each in its own way, as it does any run in real time.

Bars: `live` under {LIVE_BAR:.0%} everywhere (worst here: {worst:.1%}); speed-up of `exact` on two
idle cores {bars} with 1 request a second, half of that with 4.

| batch | requests/s | clock | TTFT P50 | P90 | P99 | TPOT P50 | P90 | P99 | speed-up |
|---|---|---|---|---|---|---|---|---|---|
{"".join(rows)}
![speed-up](ablation.svg)
"""


Cases = dict[tuple[int, float, Clock], Served]


def comparison(by_case: Cases, step_ms: int, rate: float, clock: Clock) -> str:
    cells = [
        f"{error:+.1%}"
        for metric in METRICS
        for error in errors(by_case, step_ms, rate, clock, metric)
    ]
    speed_up = by_case[step_ms, rate, Clock.SLEEP].wall_s / by_case[step_ms, rate, clock].wall_s
    return " | ".join([*cells, f"{speed_up:.1f}"])


def errors(by_case: Cases, step_ms: int, rate: float, clock: Clock, metric: str) -> list[float]:
    slept = by_case[step_ms, rate, Clock.SLEEP].percentiles_ms(metric)
    found = by_case[step_ms, rate, clock].percentiles_ms(metric)
    return [one / other - 1 for one, other in zip(found, slept, strict=True)]


def draw(served: list[Served]) -> Figure:
    """Speed-up over the rate, a curve for each clock and batch time."""
    walls_s = {(run.step_ms, run.rate, run.clock): run.wall_s for run in served}
    figure = Figure(figsize=(6, 3.2), layout="constrained")
    axes = figure.add_subplot()
    for clock, style in ((Clock.EXACT, "o-"), (Clock.LIVE, "s--")):
        for step_ms in sorted({run.step_ms for run in served}):
            rates = sorted({run.rate for run in served if run.step_ms == step_ms})
            speed_ups = [
                walls_s[step_ms, rate, Clock.SLEEP] / walls_s[step_ms, rate, clock]
                for rate in rates
            ]
            axes.plot(rates, speed_ups, style, label=f"{clock.value}, {step_ms} ms")
    axes.set(xlabel="requests a second", ylabel="speed-up over sleep", ylim=(0, None))
    axes.legend(frameon=False, ncols=2)
    return figure


if __name__ == "__main__":
    main()

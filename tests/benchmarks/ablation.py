"""`python -m tests.benchmarks.ablation`: the clocks `exact` and `live` beside `sleep`.

The paper's ablation: static batch times, Poisson arrivals of ShareGPT lengths, an engine's own
server and client. For each batch time and clock, one engine serves all rates, one client after the
other. Writes docs/results/ablation.md and ablation.svg, or ablation-sglang.md and so on. `sleep`
takes as long as a real GPU would, more than an hour for all of it, so options choose a part. Of
that, the highest rates are served once more, to tell how far `sleep` is from itself.
"""

from __future__ import annotations

import argparse
import enum
import itertools
import json
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from matplotlib.figure import Figure

from tests.benchmarks.page import RESULTS, machine, today
from warpserve.bench import clients
from warpserve.bench.config import RunConfig
from warpserve.bench.engine import EngineLaunch, RunningEngine
from warpserve.bench.experiment import planned_of
from warpserve.bench.run_folder import RunError, RunFolder
from warpserve.timekeeper.options import Clock

STEPS_MS = (5, 10, 20, 40)
RATES = (0.5, 1.0, 2.0, 4.0, 8.0)
PERCENTILES = (50, 90, 99)
METRICS = ("ttft", "tpot")
AGAIN_FROM = 4.0  # requests a second
LIVE_BAR = 0.05
# At 4 requests a second and more half of it (exact, streamed, 2 cores).
SPEED_UP_BARS = {10: 7.0, 20: 14.0, 40: 25.0}


@dataclass(frozen=True)
class Ablated:
    """An engine, and what the same prompts from each client must not find."""

    engine: str
    page: str
    title: str
    client: str
    without_prefix_cache: str


ENGINES = {
    "vllm": Ablated(
        "vllm==0.24.0", "ablation", "vLLM 0.24.0", "vllm bench serve", "--no-enable-prefix-caching"
    ),
    "sglang": Ablated(
        "sglang==0.5.23",
        "ablation-sglang",
        "SGLang 0.5.23",
        "sglang.bench_serving",
        "--disable-radix-cache",
    ),
}


class Way(enum.StrEnum):
    """How a run passes its time."""

    SLEEP = "sleep"
    AGAIN = "sleep, again"
    EXACT = "exact"
    LIVE = "live"


@dataclass(frozen=True)
class Served:
    """One client's run."""

    step_ms: int
    rate: float
    way: Way
    percentiles_ms: dict[str, list[float]]
    """By metric."""
    wall_s: float
    """From the client's first step, one of its trial request, to its end."""


def main() -> None:
    options = read_options()
    ablated = ENGINES[options.engine]
    served, load_at_start = [], os.getloadavg()[1]
    for step_ms in options.steps_ms:
        for clock in (Clock.SLEEP, Clock.EXACT, Clock.LIVE):
            with TemporaryDirectory() as folder:
                for run in serve(ablated, step_ms, clock, options, Path(folder)):
                    served.append(run)
                    print(step_ms, run.way.value, run.rate, f"{run.wall_s:.1f} s", flush=True)
        # After each batch time: all of them take hours.
        text = page(ablated, served, options.requests, load_at_start)
        (RESULTS / f"{ablated.page}.md").write_text(text)
        draw(served).savefig(RESULTS / f"{ablated.page}.svg", metadata={"Date": None})


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", choices=ENGINES, default="vllm")
    parser.add_argument("--steps-ms", type=int, nargs="+", default=STEPS_MS)
    parser.add_argument("--rates", type=float, nargs="+", default=RATES)
    parser.add_argument("--requests", type=int, default=200)
    return parser.parse_args()


def serve(
    ablated: Ablated, step_ms: int, clock: Clock, options: argparse.Namespace, folder: Path
) -> Iterator[Served]:
    """One engine, and a client for each rate."""
    config = RunConfig(
        engine=ablated.engine,
        model="llama-3.1-8b",
        gpu="h100-sxm:1",
        predictor=f"constant:{step_ms}ms",
        clock=clock,
        num_requests=options.requests,
        engine_flags=(ablated.without_prefix_cache,),
    )
    launch = EngineLaunch(config)
    steps = folder / "steps"
    with launch.started(folder / "engine.log", steps) as engine:
        for way, rate in runs_of(clock, options.rates):
            run = RunFolder.create(folder / f"{rate:g} {way}")
            of_rate = config.model_copy(update={"rate": rate})
            wall_s = run_client(of_rate, launch, engine, run, steps)
            yield Served(step_ms, rate, way, measured(run.client_result), wall_s)
        engine.stop()


def runs_of(clock: Clock, rates: Sequence[float]) -> list[tuple[Way, float]]:
    """What one engine serves, one after the other."""
    runs = [(Way(clock.value), rate) for rate in rates]
    if clock is Clock.SLEEP:
        runs += [(Way.AGAIN, rate) for rate in rates if rate >= AGAIN_FROM]
    return runs


def measured(client_result: Path) -> dict[str, list[float]]:
    """By metric, its percentiles in ms, from the columns that both engines' clients write."""
    document = json.loads(client_result.read_text())
    if any(document["errors"]):
        raise RunError(f"a request failed: {max(document['errors'])}")
    tpots_s = [
        sum(itls_s) / (tokens - 1)
        for itls_s, tokens in zip(document["itls"], document["output_lens"], strict=True)
        if tokens > 1
    ]
    return {
        metric: [float(value) for value in np.percentile(np.asarray(values_s) * 1e3, PERCENTILES)]
        for metric, values_s in (("ttft", document["ttfts"]), ("tpot", tpots_s))
    }


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


def chosen(option: str, found: Sequence[float], usual: Sequence[float]) -> str:
    """How a part of the usual was asked for; nothing where it was all."""
    values = sorted(set(found))
    return "" if values == list(usual) else f" {option} {' '.join(f'{v:g}' for v in values)}"


def page(ablated: Ablated, served: list[Served], requests: int, load_at_start: float) -> str:
    by_case = {(run.step_ms, run.rate, run.way): run for run in served}
    cases = sorted({(run.step_ms, run.rate) for run in served})
    worst = {
        way: max(
            abs(error)
            for step_ms, rate in cases
            if (step_ms, rate, way) in by_case
            for metric in METRICS
            for error in errors(by_case, step_ms, rate, way, metric)
        )
        for way in (Way.LIVE, Way.AGAIN)
    }
    bars = ", ".join(f"{bar:g} at {step_ms} ms" for step_ms, bar in SPEED_UP_BARS.items())
    rows = [
        f"| {step_ms} ms | {rate:g} | {way} | {comparison(by_case, step_ms, rate, way)} |\n"
        for (step_ms, rate), way in itertools.product(cases, (Way.EXACT, Way.LIVE, Way.AGAIN))
        if (step_ms, rate, way) in by_case
    ]
    option = "" if ablated.page == "ablation" else " --engine sglang"
    option += chosen("--steps-ms", [step_ms for step_ms, _ in cases], STEPS_MS)
    option += chosen("--rates", [rate for _, rate in cases], RATES)
    return f"""\
# Exact and live clocks beside sleeping: {ablated.title}

Written by `python -m tests.benchmarks.ablation{option}` on {today()}: {machine()}.
Load average of 5 minutes: {load_at_start:.1f} at the start, {os.getloadavg()[1]:.1f} at the end.

{ablated.title} with Llama-3.1-8B, each batch of which takes the same time; {requests} requests of
ShareGPT's lengths, Poisson arrivals, tokens streamed to `{ablated.client}`. Errors are relative to
the clock `sleep` in the same run, which waits as long as a GPU would. `exact` does not count the
host's own time, which `sleep` and `live` do: its error is the host's share. *Sleep, again* is how
far `sleep` itself is from what it was before. The speed-up is that of wall time, from the client's
first step to its end.

Bars: `live` under {LIVE_BAR:.0%} everywhere (worst here: {worst[Way.LIVE]:.1%}; of `sleep` again:
{worst[Way.AGAIN]:.1%}); speed-up of `exact` on two idle cores {bars} with 1 request a second, half
of that with 4.

| batch | requests/s | clock | TTFT P50 | P90 | P99 | TPOT P50 | P90 | P99 | speed-up |
|---|---|---|---|---|---|---|---|---|---|
{"".join(rows)}
![speed-up]({ablated.page}.svg)
"""


Cases = dict[tuple[int, float, Way], Served]


def comparison(by_case: Cases, step_ms: int, rate: float, way: Way) -> str:
    cells = [
        f"{error:+.1%}"
        for metric in METRICS
        for error in errors(by_case, step_ms, rate, way, metric)
    ]
    speed_up = by_case[step_ms, rate, Way.SLEEP].wall_s / by_case[step_ms, rate, way].wall_s
    return " | ".join([*cells, f"{speed_up:.1f}"])


def errors(by_case: Cases, step_ms: int, rate: float, way: Way, metric: str) -> list[float]:
    slept_ms = by_case[step_ms, rate, Way.SLEEP].percentiles_ms[metric]
    found_ms = by_case[step_ms, rate, way].percentiles_ms[metric]
    return [one / other - 1 for one, other in zip(found_ms, slept_ms, strict=True)]


def draw(served: list[Served]) -> Figure:
    """Speed-up over the rate, a curve for each clock and batch time."""
    walls_s = {(run.step_ms, run.rate, run.way): run.wall_s for run in served}
    figure = Figure(figsize=(6, 3.2), layout="constrained")
    axes = figure.add_subplot()
    for way, style in ((Way.EXACT, "o-"), (Way.LIVE, "s--")):
        for step_ms in sorted({run.step_ms for run in served}):
            rates = sorted({run.rate for run in served if run.step_ms == step_ms})
            speed_ups = [
                walls_s[step_ms, rate, Way.SLEEP] / walls_s[step_ms, rate, way] for rate in rates
            ]
            axes.plot(rates, speed_ups, style, label=f"{way}, {step_ms} ms")
    axes.set(xlabel="requests a second", ylabel="speed-up over sleep", ylim=(0, None))
    axes.legend(frameon=False, ncols=2)
    return figure


if __name__ == "__main__":
    main()

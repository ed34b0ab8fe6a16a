"""`python -m tests.benchmarks.engines`: vLLM beside SGLang, the same requests on the same GPU.

Writes docs/results/engines.md and engines.svg.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from matplotlib.figure import Figure

from tests.benchmarks.page import RESULTS, machine, today
from warpserve.bench.results import RequestResult
from warpserve.bench.run_folder import RunFolder

PERCENTILES = (50, 90, 99, 100)


@dataclass(frozen=True)
class Case:
    name: str
    engine: str
    flags: tuple[str, ...] = ()


CASES = (
    Case("vLLM 0.24.0", "vllm==0.24.0"),
    Case("SGLang 0.5.23", "sglang==0.5.23"),
    Case("SGLang 0.5.23, mixed chunks", "sglang==0.5.23", ("--enable-mixed-chunk",)),
)


@dataclass(frozen=True)
class Served:
    case: Case
    requests: list[RequestResult]
    prefills: int
    """Steps that computed prompts and nothing else."""
    steps: int

    def values_ms(self, metric: str) -> np.ndarray:
        if metric == "itl":
            values_s = [gap_s for request in self.requests for gap_s in request.itl_s]
        elif metric == "ttft":
            values_s = [request.ttft_s for request in self.requests if request.ttft_s is not None]
        else:
            values_s = [sum(r.itl_s) / len(r.itl_s) for r in self.requests if r.itl_s]
        return np.asarray(values_s) * 1e3


def main() -> None:
    options = read_options()
    served: list[Served] = []
    with TemporaryDirectory() as folder:
        for number, case in enumerate(CASES[: options.cases]):
            run = serve(case, options.rate, options.requests, Path(folder) / str(number))
            served.append(run)
            print(case.name, f"{float(np.percentile(run.values_ms('itl'), 99)):.1f} ms", flush=True)
    (RESULTS / "engines.md").write_text(page(served, options.rate, options.requests))
    draw(served).savefig(RESULTS / "engines.svg", metadata={"Date": None})


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", type=float, default=20, help="requests a second")
    parser.add_argument("--requests", type=int, default=200)
    parser.add_argument("--cases", type=int, choices=(2, 3), default=3, help="3: mixed chunks, too")
    return parser.parse_args()


def serve(case: Case, rate: float, requests: int, folder: Path) -> Served:
    command = [
        sys.executable, "-m", "warpserve", "bench", "--engine", case.engine,
        "--model", "llama-3.1-8b", "--gpu", "h100-sxm", "--predictor", "aiconfigurator",
        "--workload", "sharegpt", "--rate", f"{rate:g}", "--num-requests", str(requests),
        "--seed", "0", "--out", str(folder),
    ]  # fmt: skip
    finished = subprocess.run([*command, "--", *case.flags] if case.flags else command)
    if finished.returncode != 0:
        raise SystemExit(f"{case.name}: exit code {finished.returncode}")
    run = RunFolder(folder)
    found = [
        RequestResult.model_validate_json(line) for line in run.requests.read_text().splitlines()
    ]
    if any(request.error is not None for request in found):
        raise SystemExit(f"{case.name}: requests failed")
    steps = [
        json.loads(line)["requests"]
        for file in run.steps.iterdir()
        for line in file.read_text().splitlines()
    ]
    prefills = sum(all(prefill for *_, prefill in step) for step in steps)
    return Served(case, found, prefills, len(steps))


def page(served: list[Served], rate: float, requests: int) -> str:
    rows = "".join(
        f"| {run.case.name} | {metric.upper()} |"
        + "".join(f" {value:.1f} |" for value in np.percentile(run.values_ms(metric), PERCENTILES))
        + "\n"
        for metric in ("ttft", "tpot", "itl")
        for run in served
    )
    steps = "".join(f"| {run.case.name} | {run.steps:,} | {run.prefills:,} |\n" for run in served)
    vllm, sglang, *_ = served
    p99 = [float(np.percentile(run.values_ms("itl"), 99)) for run in (vllm, sglang)]
    return f"""\
# Two engines, one workload

Written by `python -m tests.benchmarks.engines` on {today()}: {machine()}.

Llama-3.1-8B on an H100, `aiconfigurator`; {requests} requests of ShareGPT's lengths, {rate:g} a
second (Poisson); each engine with its own client, streaming. Virtual time: the figures are the same
on any machine.

vLLM puts chunks of prompts into the steps of those that decode. SGLang computes prompts in steps of
their own, for which those that decode wait, unless it is told to mix (`--enable-mixed-chunk`): its
99th percentile of the time between two tokens is {p99[1]:.1f} ms, vLLM's {p99[0]:.1f} ms.

| engine | ms | P50 | P90 | P99 | most |
|---|---|---|---|---|---|
{rows}
| engine | steps | of prompts alone |
|---|---|---|
{steps}
![What part of requests or tokens waited longer](engines.svg)
"""


def draw(served: list[Served]) -> Figure:
    figure = Figure(figsize=(10, 4), layout="constrained")
    titles = {"tpot": "TPOT of a request", "itl": "between two tokens"}
    for axes, (metric, title) in zip(figure.subplots(1, 2), titles.items(), strict=True):
        for run in served:
            values_ms = np.sort(run.values_ms(metric))
            longer = 1 - np.arange(len(values_ms)) / len(values_ms)
            axes.plot(values_ms, longer, label=run.case.name)
        axes.set(xlabel=f"{title}, ms", ylabel="part that is longer", yscale="log")
        axes.grid(alpha=0.3)
        axes.legend()
    return figure


if __name__ == "__main__":
    main()

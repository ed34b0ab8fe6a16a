"""Whole runs of the real engine on virtual GPUs, beside runs of it on real ones.

`python -m tests.benchmarks.predictors.serving_runs` writes docs/results/predictors-serving.md, in
some minutes. The real runs: tests/data/llmservingsim/bench.
"""

from __future__ import annotations

import datetime
import gzip
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from warpserve.console import console

_DATA = Path(__file__).parents[2] / "data" / "llmservingsim" / "bench"
_PAGE = Path(__file__).parents[3] / "docs" / "results" / "predictors-serving.md"
_REQUESTS = 300
_RATE = 10

_HEAD = """\
# Whole runs beside real ones

Written by `python -m tests.benchmarks.predictors.serving_runs` on {date:%Y-%m-%d}. Llama-3.1-8B in
bf16, the 300 requests of a ShareGPT workload at ten a second, means in ms. Real: vLLM 0.19.0 on the
card, asked in its own process (LLMServingSim's runs, tests/data/llmservingsim). Virtual: vLLM
0.24.0 under `warpserve bench`, with the same lengths and batch limits. Nothing is fitted, and
nothing is added for the host. The arrivals differ: those of the real runs are a trace, here they
are drawn at the same rate; both saturate, so that TTFT is mostly waiting, and errors of a step add
up in it. Where the analytic predictor is this close, errors of its parts cancel
([predictors.md](predictors.md) has them).

| GPU | predictor | of | real | virtual | error |
|---|---|---|---|---|---|"""


class Case(NamedTuple):
    folder: str
    gpu: str
    predictor: str
    engine_flags: tuple[str, ...]


_CASES = (
    Case("RTXPRO6000", "rtx-pro-6000", "aiconfigurator", ("--max-num-seqs", "128")),
    Case("RTXPRO6000", "rtx-pro-6000", "analytic", ("--max-num-seqs", "128")),
    Case(
        "RTX4090",
        "rtx-4090",
        "analytic",
        ("--max-num-seqs", "256", "--max-model-len", "32768", "--num-gpu-blocks-override", "2588"),
    ),
)


_MEANS = ("TTFT", "TPOT", "latency")


class Means(NamedTuple):
    ttft_ms: float
    tpot_ms: float
    latency_ms: float


def real(folder: Path) -> Means:
    with gzip.open(folder / "requests.jsonl.gz", "rt") as file:
        rows = [json.loads(line) for line in file]
    waits = [row["first_token_ts"] - row["queued_ts"] for row in rows]
    spans = [row["last_token_ts"] - row["first_token_ts"] for row in rows]
    steps = [row["output_toks"] - 1 for row in rows]
    return Means(
        1e3 * statistics.mean(waits),
        1e3 * statistics.mean(span / count for span, count in zip(spans, steps, strict=True)),
        1e3 * statistics.mean(wait + span for wait, span in zip(waits, spans, strict=True)),
    )


def virtual(case: Case) -> Means:
    """Runs it. Raises CalledProcessError where that fails."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        command = [sys.executable, "-m", "warpserve", "bench", "--model", "llama-3.1-8b"]
        command += ["--gpu", case.gpu, "--predictor", case.predictor, "--workload", "sharegpt"]
        command += ["--rate", str(_RATE), "--num-requests", str(_REQUESTS)]
        command += ["--out", str(out), "--", "--max-num-batched-tokens", "2048"]
        subprocess.run([*command, *case.engine_flags], check=True, stdout=subprocess.DEVNULL)
        summary = json.loads((out / "summary.json").read_text())
    return Means(*(summary[name]["mean_ms"] for name in ("ttft", "tpot", "latency")))


def lines() -> Iterator[str]:
    yield _HEAD.format(date=datetime.date.today())
    for case in _CASES:
        pairs = zip(_MEANS, real(_DATA / case.folder), virtual(case), strict=True)
        for name, was, said in pairs:
            cells = f"{name} | {was:,.1f} | {said:,.1f} | {said / was - 1:+.1%}"
            yield f"| {case.gpu} | {case.predictor} | {cells} |"


def main() -> None:
    text = "\n".join(lines()) + "\n"
    _PAGE.write_text(text)
    console().print(text, markup=False)


if __name__ == "__main__":
    main()

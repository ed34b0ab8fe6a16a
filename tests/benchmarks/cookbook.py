"""`python -m tests.benchmarks.cookbook [FOLDER]`: SGLang's own published benchmarks, run here.

SGLang's cookbook (tests/data/sgl_cookbook) shows what `sglang.bench_serving` printed on B200s. The
same servers are started on virtual ones, and get the same requests: the client's lengths follow
from its seed. FOLDER keeps the run folders. Writes docs/results/cookbook.md.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy

from tests.benchmarks.page import RESULTS, machine, today
from warpserve.bench.config import RunConfig
from warpserve.bench.experiment import run_experiment
from warpserve.bench.summary import Summary

_TABLES = Path(__file__).parents[1] / "data" / "sgl_cookbook" / "tables.jsonl"
_ENGINE = "sglang==0.5.23"
_SEED = 1
"""Of `sglang.bench_serving`, unless told otherwise."""
_FIGURES = (
    *(("ttft", name) for name in ("mean", "p50", "p99")),
    *(("tpot", name) for name in ("mean", "p50", "p99")),
    ("itl", "p50"),
)
_PUBLISHED = {"mean": "mean", "p50": "median", "p99": "p99"}
_HEADING = """# SGLang's cookbook, run again

Written by `python -m tests.benchmarks.cookbook` on {today}, on {machine}.

SGLang's cookbook shows what `sglang.bench_serving` printed of models on B200s, with the commands
(tests/data/sgl_cookbook). Here SGLang 0.5.23 serves the same models on virtual B200s, with the
same flags, and gets requests of the same lengths, as many at once. Steps are predicted from
aiconfigurator's tables of SGLang 0.5.14; nothing is scaled. What is published is of SGLang 0.5.6,
older by some months; the one flag added is `--disable-prefill-cuda-graph`, as 0.5.6 had no such
graphs. Each was measured once, on a host that is not named: what its spread is nobody says.

An error is that of the figure here, over the published one. *At once* is the client's
`--max-concurrency`.

| model | input, output, requests | at once | {figures} |
|---|---|---|{rules}
"""
_FLOOR = """
Prefills of SGLang 0.5.6 are eager: the host launches their kernels one by one
([predictors/eager.py](../../predictors/eager.py)). How long a launch takes was fitted to the first
tokens of single requests, of these models and three more, so that the medians of TTFT with one
request at once are no test. Those of more, and all of P99 and TPOT, are. The same without it
(`launch_host=0ms`), TTFT of single requests:

| model | input | published median | here | without |
|---|---|---|---|---|
"""
_WHY = """
Where it is worse, and why:

- TPOT is short, by 7 % (gpt-oss) to 36 % (Qwen3-235B with a single request). Of Qwen3 it is some
  38 us a layer whatever the load, as if 0.5.6 had no tuned kernels for its experts on B200s. Of the
  next version that others measured, 0.5.9 with DeepSeek-R1, it is right within 5 % in the median
  ([predictors.md](predictors.md)).
- Long prefills of DeepSeek-R1 are short by a quarter, and those of a whole first wave by half: what
  P99 of TTFT with many at once is, and half of the mean. InferenceX's points of 0.5.9 say the same.
  Why is not known; prompts' own experts, other than those that were timed, may be a part of it.
- A single launch is not the same on each host and with each model: with 16 at once Qwen3's prefills
  were faster than the floor says.
- Of gpt-oss-120b a fifth of the first token's time is HTTP's and the tokenizer's, which take no
  time here unless `request_host=` says so; its longest is not a step's at all.
"""


class Published(NamedTuple):
    """One table of the cookbook."""

    model: str
    input_tokens: int | None
    """At most, of a request; None: they are ShareGPT's."""
    output_tokens: int | None
    requests: int
    concurrency: int
    metrics: dict[str, Any]

    @property
    def name(self) -> str:
        return self.model.rpartition("/")[2]

    @property
    def load(self) -> str:
        if self.input_tokens is None:
            return f"ShareGPT, {self.requests}"
        return f"{self.input_tokens:,}, {self.output_tokens:,}, {self.requests}"

    def figure(self, metric: str, name: str) -> float:
        return float(self.metrics[f"{_PUBLISHED[name]}_{metric}_ms"])

    def workload(self, folder: Path) -> str:
        """The client's requests, in a file, or of the same mean lengths."""
        if self.input_tokens is None or self.output_tokens is None:
            means = [self.metrics[f"total_{side}_tokens"] for side in ("input", "output")]
            lengths = [round(total / self.requests) for total in means]
            return f"random:input={lengths[0]},output={lengths[1]}"
        random = numpy.random.RandomState(_SEED)
        inputs = random.randint(1, self.input_tokens + 1, size=self.requests)
        outputs = random.randint(1, self.output_tokens + 1, size=self.requests)
        assert sum(inputs) == self.metrics["total_input_tokens"], "these are other requests"
        path = folder / f"{self.name}-{self.input_tokens}-{self.requests}.jsonl"
        rows = (
            {"input_tokens": int(new), "output_tokens": int(more)}
            for new, more in zip(inputs, outputs, strict=True)
        )
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return str(path)


def main() -> None:
    with tempfile.TemporaryDirectory() as temporary:
        out = Path(sys.argv[1] if len(sys.argv) > 1 else temporary)
        out.mkdir(parents=True, exist_ok=True)
        rows = list(_measured(out))
        lone = [(table, summary) for table, summary in rows if table.concurrency == 1]
        without = [_run(table, out, "launch_host=0ms") for table, _ in lone]
    page = _HEADING.format(
        today=today(),
        machine=machine(),
        figures=" | ".join(f"{metric.upper()} {name}" for metric, name in _FIGURES),
        rules="---|" * len(_FIGURES),
    )
    page += "".join(_row(table, summary) for table, summary in rows) + _FLOOR
    page += "".join(
        f"| {table.name} | {table.load} | {table.figure('ttft', 'p50'):.0f} ms "
        f"| {_ms(here, 'ttft', 'p50'):.0f} ms | {_ms(plain, 'ttft', 'p50'):.0f} ms |\n"
        for (table, here), plain in zip(lone, without, strict=True)
    )
    (RESULTS / "cookbook.md").write_text(page + _WHY)


def _measured(out: Path) -> Iterator[tuple[Published, Summary]]:
    for table in tables():
        summary = _run(table, out)
        print(_row(table, summary), end="", flush=True)
        yield table, summary


def tables() -> list[Published]:
    rows = [json.loads(line) for line in _TABLES.read_text().splitlines()]
    return sorted((_published(row) for row in rows), key=lambda t: (t.model, t.concurrency))


def _published(row: dict[str, Any]) -> Published:
    lengths = [int(row[name]) if row[name] else None for name in ("input_len", "output_len")]
    counts = [int(row[name]) for name in ("num_prompts", "client_max_concurrency")]
    return Published(row["model"], lengths[0], lengths[1], counts[0], counts[1], row["metrics"])


def _run(table: Published, out: Path, options: str = "") -> Summary:
    """Raises WarpserveError."""
    config = RunConfig.of(
        engine=_ENGINE,
        model=table.model,
        gpu="b200:8",
        predictor=f"aiconfigurator:{options}" if options else "aiconfigurator",
        workload=table.workload(out),
        arrival=f"closed:{table.concurrency}",
        num_requests=table.requests,
        client="own",
        fast=True,
        engine_flags=("--tp", "8", "--disable-prefill-cuda-graph"),
    )
    name = f"{table.name}-{table.load}-{table.concurrency}-{options}"
    return run_experiment(config, out / name.replace(", ", "-").replace(",", ""))


def _row(table: Published, summary: Summary) -> str:
    errors = [
        _error(_ms(summary, metric, name), table.figure(metric, name)) for metric, name in _FIGURES
    ]
    cells = [table.name, table.load, str(table.concurrency), *errors]
    return f"| {' | '.join(cells)} |\n"


def _ms(summary: Summary, metric: str, name: str) -> float:
    return float(getattr(getattr(summary, metric), f"{name}_ms"))


def _error(here: float, published: float) -> str:
    shown = f"{published:,.0f}" if published >= 100 else f"{published:.3g}"
    return f"{shown}: {here / published - 1:+.0%}"


if __name__ == "__main__":
    main()

"""`python -m tests.benchmarks.kv_capacity`: KV caches beside those of real servers.

Starts vLLM for each line of tests/data/kv_cache_logs/kv_cache_logs.csv, or for those named, until
it prints the size of its KV cache. Keeps what it printed in docs/results/kv-capacity.csv, and
writes docs/results/kv-capacity.md from all that is kept.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import statistics
import tempfile
import time
from collections.abc import Collection, Sequence
from pathlib import Path

import tomllib
from packaging.version import Version
from pydantic import BaseModel, ConfigDict

from tests.benchmarks.older_vllm import run_until
from tests.benchmarks.page import RESULTS, machine, today
from tests.environments import OLDER_VLLMS
from tests.harness import CLIENTS
from warpserve.bench.config import EngineConfig
from warpserve.bench.engine import EngineLaunch
from warpserve.bench.kv_cache import kv_tokens
from warpserve.bench.models import model_named
from warpserve.bench.run_folder import RunError
from warpserve.predictors.model_shape import model_shape

DATA = Path(__file__).parents[1] / "data" / "kv_cache_logs"
KEPT = RESULTS / "kv-capacity.csv"
ENGINES = tuple(map(Version, (*OLDER_VLLMS, "0.19.0", "0.24.0")))
"""Of vLLM; a row takes the one that its own version is, or is nearest to."""
GRAPHS_COUNT = "VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS"
GRAPHS_COUNTED_SINCE = Version("0.21.0")
"""From which version on vLLM leaves room for CUDA graphs, unless told otherwise."""
START_LIMIT_S = 600.0
MEDIAN_BAR, WORST_BAR = 0.01, 0.03

COUNTED = """\
What vLLM calls non-torch memory is what others than torch take after its first look: the code of
kernels, which is loaded when they first run, and the buffers of NCCL's connections. Real servers
have logged:

| vLLM | GPU | tensor parallel | non-torch memory | where |
|---|---|---|---|---|
| 0.10.2 | A100-40, L40S, RTX 4090 | 1 | 0.02 GiB | issues of vLLM |
| 0.10.2 | H100 | 1 | 0.07 GiB | issues of vLLM |
| 0.10.2, which looks before NCCL is there | H200 | 2 | 1.38 GiB | an issue of vLLM |
| 0.11 to 0.17 | H100 | 1 | 0.13 GiB | [llm-d-benchmark][memory], [llm-d-planner][planner] |
| 0.11 to 0.15 | H100 | 2 | 0.55 GiB | [llm-d-benchmark][memory] |
| 0.18, 0.19, which capture CUDA graphs before they look again | H100 | 1 | 0.25 GiB | \
[llm-d-planner][planner] |
| 0.19 | H100 | 2; 4 | 2.07; 2.13 GiB | [llm-d-planner][planner] |

The patches of 0.19 and later take as much as 0.19.0 did
(patches/vllm/device_memory.py): vLLM 0.19.0 then has 475,872 tokens for Llama-3.1-8B on an H100 at
0.95, and its [log][planner] 476,016. Older versions come up unpatched, and take nothing. Since 0.21
vLLM leaves room for CUDA graphs; for servers before, it is told not to.

[memory]: https://github.com/llm-d/llm-d-benchmark/blob/main/config_explorer/empirical-vllm-memory-results.md
[planner]: https://github.com/llm-d-incubation/llm-d-planner/tree/3fdf824d77a595cb2b83eb0d95e56e3fef54e400/accuracy
"""


class Row(BaseModel):
    """What stands in for a line of the CSV file; without a GPU: nothing."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    line: int
    gpu: str | None = None
    model: str = ""
    flags: tuple[str, ...] = ()
    vllm: str | None = None
    """The version to start, where the line does not say one."""
    why: str


class Outcome(BaseModel):
    """What the engine printed; one line of kv-capacity.csv."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    line: int
    engine: str
    """The version of vLLM that ran here."""
    tokens: int | None
    """None: it ended before it said."""
    failure: str


def main() -> None:
    options = read_options()
    os.environ["PYTHONPATH"] = str(CLIENTS)
    logs, kept = read_logs(), read_kept()
    rows = [
        Row.model_validate(row) for row in tomllib.loads((DATA / "rows.toml").read_text())["row"]
    ]
    for row in rows:
        is_wanted = row.line in options.lines or not (options.lines or options.page_only)
        if row.gpu is not None and is_wanted:
            kept[row.line] = measured(row, row.gpu, logs[row.line])
            print(kept[row.line], flush=True)
            write_kept(kept)
    (RESULTS / "kv-capacity.md").write_text(page(rows, logs, kept))


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("lines", type=int, nargs="*", help="of the CSV file; default: all")
    parser.add_argument("--page-only", action="store_true", help="start no engine")
    return parser.parse_args()


def read_logs() -> dict[int, dict[str, str]]:
    """The real servers, by line of the file."""
    with (DATA / "kv_cache_logs.csv").open(newline="") as file:
        return dict(enumerate(csv.DictReader(file), start=2))


def read_kept() -> dict[int, Outcome]:
    if not KEPT.exists():
        return {}
    with KEPT.open(newline="") as file:
        found = [Outcome(**row | {"tokens": row["tokens"] or None}) for row in csv.DictReader(file)]
    return {outcome.line: outcome for outcome in found}


def write_kept(kept: dict[int, Outcome]) -> None:
    with KEPT.open("w", newline="") as file:
        table = csv.DictWriter(file, tuple(Outcome.model_fields), lineterminator="\n")
        table.writeheader()
        table.writerows(kept[line].model_dump() for line in sorted(kept))


def measured(row: Row, gpu: str, logged: dict[str, str]) -> Outcome:
    """Starts the engine as the row says."""
    model = str(own_model(row) or row.model)
    version = row.vllm or str(engine_of(logged))
    flags = (*flags_of(logged), *row.flags)
    os.environ[GRAPHS_COUNT] = str(int(version_of(logged) >= GRAPHS_COUNTED_SINCE))
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "engine.log"
        try:
            if version in OLDER_VLLMS:
                run_until(says_size, version, model, gpu, flags, log, START_LIMIT_S)
            else:
                start_known(version, model, gpu, flags, log)
        except RunError:
            failure = last_error(log.read_text(errors="replace"))
            return Outcome(line=row.line, engine=version, tokens=None, failure=failure)
        tokens = kv_tokens(log.read_text(errors="replace"))
    return Outcome(line=row.line, engine=version, tokens=tokens, failure="")


def own_model(row: Row) -> Path | None:
    """The folder of a model that is not shipped."""
    folder = DATA / "models" / row.model
    return folder if folder.is_dir() else None


def is_dense(row: Row) -> bool:
    folder = own_model(row)
    if folder is None:
        return model_shape(model_named(row.model).config()).experts is None
    return model_shape(json.loads((folder / "config.json").read_text())).experts is None


def flags_of(logged: dict[str, str]) -> list[str]:
    """The settings of the real server, as far as they are known."""
    flags = ["--skip-tokenizer-init"]
    for flag, column in {
        "--dtype": "dtype",
        "--kv-cache-dtype": "kv_cache_dtype",
        "--gpu-memory-utilization": "gpu_memory_utilization",
        "--max-model-len": "max_model_len",
        "--max-num-batched-tokens": "max_num_batched_tokens",
        "--max-num-seqs": "max_num_seqs",
    }.items():
        if logged[column]:
            flags += [flag, logged[column]]
    if logged["enforce_eager"] == "True":
        flags.append("--enforce-eager")
    if logged["tp"] and logged["tp"] != "1":
        flags += ["--tensor-parallel-size", logged["tp"]]
    return flags


def version_of(logged: dict[str, str]) -> Version:
    text = logged["engine_version"].split()[0].lstrip("~").partition("/")[0].replace("x", "0")
    return Version(text)


def engine_of(logged: dict[str, str]) -> Version:
    """Of two as near as each other, the newer one."""
    wanted = version_of(logged)
    return min(reversed(ENGINES), key=lambda engine: distance(engine, wanted))


def distance(one: Version, other: Version) -> tuple[int, int]:
    """In minor and micro versions."""
    return abs(one.minor - other.minor), abs(one.micro - other.micro)


def start_known(version: str, model: str, gpu: str, flags: Sequence[str], log: Path) -> None:
    """A version that the patches know, until it says. Raises RunError as `run_until` does."""
    config = EngineConfig(
        engine=f"vllm=={version}",
        model=model,
        gpu=gpu,
        predictor="constant:10ms",
        engine_flags=tuple(flags),
    )
    give_up_s = time.monotonic() + START_LIMIT_S
    with EngineLaunch(config).started(log) as engine:
        while time.monotonic() < give_up_s:
            engine.wait(0.5)
            if says_size(log.read_text(errors="replace")):
                return
    raise RunError(f"no KV cache after {START_LIMIT_S} s")


def says_size(log: str) -> bool:
    return kv_tokens(log) is not None


def last_error(log: str) -> str:
    errors = [line for line in log.splitlines() if "Error: " in line]
    return errors[0].partition("] ")[2][:160] if errors else "no message"


def error_of(outcome: Outcome | None, logged: dict[str, str]) -> float | None:
    if outcome is None or outcome.tokens is None:
        return None
    return outcome.tokens / int(logged["kv_tokens"]) - 1


def markdown_row(row: Row, logged: dict[str, str], outcome: Outcome | None) -> str:
    error = error_of(outcome, logged)
    here = "not tried" if outcome is None else outcome.failure
    if outcome is not None and outcome.tokens is not None:
        here = f"{outcome.tokens:,}"
    available_gib = logged["available_kv_gib"]
    cells = (
        f"[{logged['model']}]({logged['url']})",
        logged["gpu"],
        row.gpu or "",
        logged["engine_version"],
        "" if outcome is None else outcome.engine,
        f"{int(logged['kv_tokens']):,}",
        here,
        "" if error is None else f"{error:+.2%}",
        "" if error is None or not available_gib else f"{error * float(available_gib):+.2f} GiB",
        row.why,
    )
    return f"| {' | '.join(cells)} |"


def statistics_of(errors: Collection[float]) -> str:
    return f"{len(errors)} | {statistics.median(errors):.2%} | {max(errors):.2%}"


def page(rows: list[Row], logs: dict[int, dict[str, str]], kept: dict[int, Outcome]) -> str:
    errors = {
        row: abs(error)
        for row in rows
        if (error := error_of(kept.get(row.line), logs[row.line])) is not None
    }
    dense = [error for row, error in errors.items() if is_dense(row)]
    return f"""\
# KV caches beside those of real servers

Written by `python -m tests.benchmarks.kv_capacity` on {today()}: {machine()}.

"GPU KV cache size" as vLLM prints it on virtual GPUs, and as real servers have logged it, with
their settings as far as they are known (tests/data/kv_cache_logs). Here vLLM is the server's own
version, or the nearest of {", ".join(map(str, ENGINES))}.
Those that the patches do not know come up unpatched, as far as this line
(tests/benchmarks/older_vllm.py).

{COUNTED}
Bars are a median of {MEDIAN_BAR:.0%} and a worst of {WORST_BAR:.0%}, and are set for dense models.

| rows | of {len(rows)} | median error | worst |
|---|---|---|---|
| dense models | {statistics_of(dense)} |
| all | {statistics_of(errors.values())} |

| model, log | GPU | virtual | vLLM | vLLM here | logged | here | error | in memory | what differs |
|---|---|---|---|---|---|---|---|---|---|
""" + "".join(f"{markdown_row(row, logs[row.line], kept.get(row.line))}\n" for row in rows)


if __name__ == "__main__":
    main()

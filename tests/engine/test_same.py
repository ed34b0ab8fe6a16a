"""Two runs of an experiment leave the same results, byte for byte, whatever else the host does."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from difflib import unified_diff
from pathlib import Path

import pytest

from tests.engine.runs import THREE_SERVERS, TWO_RANKS, Run, bench
from tests.engine.sessions import ENGINE
from tests.engine.sglang_served import SGLANG
from warpserve.bench.report.timeline import read_samples
from warpserve.bench.steps import index_of
from warpserve.patches.engines import EngineRequirement

LOAD = ("--predictor=constant:20ms", "--rate=8", "--num-requests=40", "--seed=5")
CONVERSATIONS = "sessions:turns=3,think_s=1,input=2000,output=20"
STORAGE = '{"sim_read_gbps": 2, "sim_write_gbps": 4, "sim_op_latency_us": 50}'
HICACHE = (
    f"--workload={CONVERSATIONS}", "--",
    "--enable-hierarchical-cache", "--hicache-size=2", "--page-size=64",
    "--max-total-tokens=40000",
    "--hicache-storage-backend=sim", f"--hicache-storage-backend-extra-config={STORAGE}",
)  # fmt: skip


def results(run: Run) -> dict[str, list[str]]:
    """The lines of what must not differ, by file. Not the ids of requests, of which vLLM draws a
    part, nor what the host has spent, nor when SGLang has asked itself something: as it starts up,
    ranks look for each other with timers, more or fewer times.
    """
    folder = run.folder
    files = (folder.requests, folder.prompts, folder.config)
    summary = json.loads(folder.summary.read_text())
    steps = [
        {key: step[key] for key in step if key != "request_ids"}
        for step in run.steps
        if any(index_of(request_id) is not None for request_id in step["request_ids"])
    ]
    return {
        **{file.name: file.read_text().splitlines() for file in files},
        folder.summary.name: [f"{key}: {summary[key]}" for key in summary if key != "host"],
        folder.steps.name: [json.dumps(step) for step in steps],
        folder.metrics.name: list(counted(run)),
    }


def counted(run: Run) -> Iterator[str]:
    """The engine's metrics over time, a value a line, less what they were up to the first second of
    requests: a start may wait for a file that another session's engine has locked, and how long a
    scheduler was idle is known once it has something to do.

    Which of several API servers takes a request is up to the kernel, so each counts other steps as
    its own, and sums add up in another order.
    """
    first_ns = min(request.start_s for request in run.requests) * 1e9
    readings = read_samples(run.folder.metrics)
    first = next(i for i, reading in enumerate(readings) if reading["time_ns"] > first_ns)
    begun: dict[str, float] = readings[first]["metrics"]
    for reading in readings[first:]:
        for name, value in sorted(reading["metrics"].items()):
            if not name.startswith("vllm:iteration_tokens_total"):
                yield f"{reading['time_ns']} {name} {round(value - begun.get(name, 0.0), 9) + 0.0}"


def differences(one: dict[str, list[str]], other: dict[str, list[str]]) -> list[str]:
    """The lines of either that the other lacks, in its place."""
    return [
        f"{file}{line}"
        for file in one
        for line in unified_diff(one[file], other[file], lineterm="", n=0)
    ]


TWO_STAGES = ("--gpu=h100-sxm:2", "--", "--pipeline-parallel-size=2")
THOROUGH = pytest.mark.thorough


@pytest.mark.parametrize(
    ("engine", "options"),
    [
        pytest.param(ENGINE, ("--rate=inf",), id="all_at_once", marks=THOROUGH),
        pytest.param(ENGINE, TWO_RANKS, id="two_tensor_ranks", marks=THOROUGH),
        pytest.param(ENGINE, TWO_STAGES, id="two_pipeline_stages"),
        pytest.param(ENGINE, THREE_SERVERS, id="three_api_servers", marks=THOROUGH),
        pytest.param(SGLANG, TWO_RANKS, id="sglang_two_tensor_ranks"),
        pytest.param(SGLANG, HICACHE, id="sglang_hicache", marks=THOROUGH),
    ],
)
def test_on_idle_and_on_busy_cores(
    engine: EngineRequirement,
    options: tuple[str, ...],
    tmp_path: Path,
    busy_cores: Callable[[], AbstractContextManager[None]],
) -> None:
    on_idle_cores = bench(tmp_path / "idle", *LOAD, *options, engine=engine)
    with busy_cores():
        on_busy_cores = bench(tmp_path / "busy", *LOAD, *options, engine=engine)
    assert differences(results(on_idle_cores), results(on_busy_cores)) == []

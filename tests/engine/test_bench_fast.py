"""`warpserve bench --fast` beside the stock client that streams, with the real vLLM."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from tests.engine.runs import Run, bench
from warpserve.bench.report.timeline import read_samples
from warpserve.patches.vllm.held_outputs import DISTORTED

KV_TOKENS = 3_328


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Run]:
    """One streamed, one fast.

    With idle moments, prompts of several steps, answers of a single token, and a KV cache so small
    that requests wait and are preempted.
    """
    folder = tmp_path_factory.mktemp("runs")
    draw = random.Random(1)
    rows = [f"{i},{draw.randint(2, 3_000)},{draw.randint(1, 80)}" for i in range(60)]
    workload = folder / "lengths.csv"
    workload.write_text("\n".join(["arrival_time_ns,input_toks,output_toks", *rows]) + "\n")
    real_log = folder / "vllm.log"
    real_log.write_text(f"INFO GPU KV cache size: {KV_TOKENS:,} tokens\n")
    options = [
        "--predictor=constant:9.7ms",
        f"--workload={workload}",
        f"--kv-from={real_log}",
        "--rate=4",
        "--num-requests=60",
        "--",
        "--max-model-len=3200",
        "--max-num-batched-tokens=1024",
    ]
    return bench(folder / "streamed", *options), bench(folder / "fast", "--fast", *options)


def test_every_time_is_the_same_to_the_last_digit(runs: tuple[Run, Run]) -> None:
    streamed, fast = runs
    assert len(fast.requests) == 60
    for one, other in zip(streamed.requests, fast.requests, strict=True):
        assert other == one


def test_the_steps_are_the_same(runs: tuple[Run, Run]) -> None:
    batches = [[(step["end_ns"], step["requests"]) for step in run.steps] for run in runs]
    assert batches[0] == batches[1]


def test_the_engine_counts_the_same_at_every_reading(runs: tuple[Run, Run]) -> None:
    streamed, fast = (
        [(sample["time_ns"], of_engine(sample["metrics"])) for sample in samples]
        for samples in (read_samples(run.folder.metrics) for run in runs)
    )
    assert len(fast) > 5
    assert fast == streamed


def of_engine(metrics: dict[str, float]) -> dict[str, float]:
    """What vLLM's engine counts, but for what --fast leaves out."""
    return {
        name: value
        for name, value in metrics.items()
        if name.startswith("vllm:") and not name.startswith(DISTORTED)
    }


def test_requests_were_preempted_for_the_kv_cache_that_was_asked_for(
    runs: tuple[Run, Run],
) -> None:
    for run in runs:
        assert run.kv_cache_tokens == KV_TOKENS
        metrics = read_samples(run.folder.metrics)[-1]["metrics"]
        preempted = [value for name, value in metrics.items() if "num_preemptions_total" in name]
        assert sum(preempted) > 0


@pytest.mark.thorough
def test_replicas_that_share_experts(tmp_path: Path) -> None:
    """One of them has no requests at times, and takes part in the other's steps."""
    workload = tmp_path / "lengths.csv"
    rows = [f"{i * 200_000_000},{40 + i},{3 + 9 * (i % 3)}" for i in range(12)]
    workload.write_text("\n".join(["arrival_time_ns,input_toks,output_toks", *rows]) + "\n")
    options = [
        "--predictor=constant:10ms",
        "--model=Qwen/Qwen3-30B-A3B",
        "--gpu=h100-sxm:2",
        f"--workload={workload}",
        "--arrival=trace",
        "--num-requests=12",
        "--",
        "--data-parallel-size=2",
        "--enable-expert-parallel",
    ]
    streamed, fast = (
        bench(tmp_path / name, *flags, *options)
        for name, flags in (("streamed", []), ("fast", ["--fast"]))
    )
    assert len(fast.requests) == 12
    assert fast.requests == streamed.requests
    logs = [path.read_text().splitlines() for path in fast.folder.steps.iterdir()]
    without = [sum(not json.loads(line)["request_ids"] for line in log) for log in logs]
    assert len(logs) == 2
    assert sum(without) > 5


def test_the_summary_says_what_each_process_costs(runs: tuple[Run, Run]) -> None:
    _, fast = runs
    for process in ("server", "client", "Timekeeper", "VLLM::EngineCor"):
        assert process in fast.output
    assert "ms a step" in fast.output

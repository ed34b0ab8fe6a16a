"""`warpserve bench --fast` beside the stock client that streams, with the real vLLM."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.engine.runs import Run, bench


@pytest.fixture(scope="module")
def workload(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Idle moments, requests under way at once, prompts of several steps, answers of one token."""
    path = tmp_path_factory.mktemp("workload") / "lengths.csv"
    draw = random.Random(1)
    rows = [f"{i},{draw.randint(2, 3_000)},{draw.randint(1, 80)}" for i in range(60)]
    path.write_text("\n".join(["arrival_time_ns,input_toks,output_toks", *rows]) + "\n")
    return path


@pytest.fixture(scope="module")
def runs(workload: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Run]:
    """One streamed, one fast."""
    options = [
        "--predictor=constant:9.7ms",
        f"--workload={workload}",
        "--rate=4",
        "--num-requests=60",
        "--max-num-batched-tokens=1024",
    ]
    folder = tmp_path_factory.mktemp("runs")
    return bench(folder / "streamed", *options), bench(folder / "fast", "--fast", *options)


def test_every_time_is_the_same_to_the_last_digit(runs: tuple[Run, Run]) -> None:
    streamed, fast = runs
    assert len(fast.requests) == 60
    for one, other in zip(streamed.requests, fast.requests, strict=True):
        assert other == one
    queued = [
        request for request in fast.requests if request.ttft_s is not None and request.ttft_s > 0.03
    ]
    assert queued, "some wait for their turn"


def test_the_steps_are_the_same(runs: tuple[Run, Run]) -> None:
    batches = [[(step["end_ns"], step["requests"]) for step in run.steps] for run in runs]
    assert batches[0] == batches[1]


def test_the_summary_says_what_each_process_costs(runs: tuple[Run, Run]) -> None:
    _, fast = runs
    for process in ("server", "client", "Timekeeper", "VLLM::EngineCor"):
        assert process in fast.output
    assert "ms a step" in fast.output

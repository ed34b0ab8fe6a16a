"""The real SGLang on a virtual GPU, driven over HTTP by its own client."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from itertools import pairwise
from pathlib import Path

import pytest

from tests.engine.runs import Run, bench
from tests.engine.sglang_served import SGLANG
from tests.engine.test_same import results
from warpserve.bench.run_folder import RunFolder

STEP_S = 0.02
POISSON = ("--predictor=constant:20ms", "--rate=4", "--num-requests=20", "--seed=3")


@pytest.fixture(scope="module")
def poisson(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return bench(tmp_path_factory.mktemp("poisson") / "run", *POISSON, engine=SGLANG)


def test_one_request_at_a_time_takes_its_steps(tmp_path: Path) -> None:
    workload = tmp_path / "lengths.csv"
    workload.write_text("input_tokens,output_tokens\n300,10\n2000,7\n2,12\n")
    options = (f"--workload={workload}", "--rate=1", "--num-requests=3")
    run = bench(tmp_path / "run", "--predictor=constant:20ms", *options, engine=SGLANG)
    assert "Serving Benchmark Result" in run.output
    for request in run.requests:
        assert request.ttft_s == pytest.approx(STEP_S, abs=1e-12)
        assert request.itl_s == pytest.approx([STEP_S] * (request.output_tokens - 1), abs=1e-12)
    assert run.client["median_ttft_ms"] == pytest.approx(20, abs=1e-9)
    assert run.client["median_tpot_ms"] == pytest.approx(20, abs=1e-9)


def test_every_token_arrives_when_the_step_ends_that_made_it(poisson: Run) -> None:
    for request in poisson.requests:
        ends_s = [end / 1e9 for end in poisson.token_ends_ns(request.index, request.input_tokens)]
        # A step that was launched before the last token was known computes one too many.
        itl_s = [after - before for before, after in pairwise(ends_s[: request.output_tokens])]
        assert request.itl_s == pytest.approx(itl_s, abs=1e-12)
        assert request.start_s + (request.ttft_s or 0.0) == pytest.approx(ends_s[0], abs=1e-9)


def test_the_run_folder_tells_all(poisson: Run) -> None:
    folder = poisson.folder
    for path in (folder.config, folder.environment, folder.report, folder.summary, folder.prompts):
        assert path.stat().st_size > 0
    assert poisson.kv_cache_tokens > 400_000
    assert "sglang:num_running_reqs" in folder.metrics.read_text()
    assert "20 of 20 requests completed, 0 failed" in poisson.output


def test_the_same_results_with_all_cores_busy(
    poisson: Run, tmp_path: Path, busy_cores: Callable[[], AbstractContextManager[None]]
) -> None:
    with busy_cores():
        again = bench(tmp_path / "run", *POISSON, engine=SGLANG)
    assert results(poisson) == results(again)


@pytest.mark.thorough
def test_its_twin_takes_the_same_times(poisson: Run, tmp_path: Path) -> None:
    """The folder of a run read as a real one's, and replayed: by our client, which sends at any
    instant.
    """
    out = tmp_path / "twin"
    command = [
        sys.executable, "-m", "warpserve", "replay", str(poisson.folder.path), "--out", str(out),
        "--predictor=constant:20ms", "--max-error=ttft.p99=0.01%", "--max-error=makespan=0.01%",
    ]  # fmt: skip
    finished = subprocess.run(command, capture_output=True, text=True)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    twin = Run(RunFolder(out), finished.stdout)
    for recorded, again in zip(poisson.requests, twin.requests, strict=True):
        assert again.input_tokens == recorded.input_tokens
        assert again.ttft_s == pytest.approx(recorded.ttft_s, abs=1e-6)
        assert again.itl_s == pytest.approx(recorded.itl_s, abs=1e-9)
    assert twin.kv_cache_tokens == poisson.kv_cache_tokens

"""The real vLLM on a virtual GPU, driven over HTTP by its own client."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from itertools import pairwise
from pathlib import Path

import pytest

from tests.engine.runs import Run, bench
from tests.engine.sessions import TEXT_WAIT_S

STEP_S = 0.02
POISSON = ("--predictor=constant:20ms", "--rate=4", "--num-requests=20", "--seed=3")


@pytest.fixture(scope="module")
def poisson(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return bench(tmp_path_factory.mktemp("poisson") / "run", *POISSON)


def test_one_request_at_a_time_takes_its_steps(tmp_path: Path) -> None:
    workload = tmp_path / "lengths.csv"
    workload.write_text("arrival_time_ns,input_toks,output_toks\n0,300,10\n1,2000,7\n2,2,12\n")
    options = (f"--workload={workload}", "--rate=1", "--num-requests=3")
    run = bench(tmp_path / "run", "--predictor=constant:20ms", *options)
    assert "Serving Benchmark Result" in run.output
    for request in run.requests:
        assert request.ttft_s == pytest.approx(TEXT_WAIT_S + STEP_S, abs=1e-12)
        assert request.itl_s == pytest.approx([STEP_S] * (request.output_tokens - 1), abs=1e-12)
    expected_ms = 1e3 * (TEXT_WAIT_S + STEP_S)
    assert run.client["median_ttft_ms"] == pytest.approx(expected_ms, abs=1e-9)
    assert run.client["median_tpot_ms"] == pytest.approx(20, abs=1e-9)


def test_every_token_arrives_when_the_step_ends_that_made_it(poisson: Run) -> None:
    starts_s = poisson.client["start_times"]
    for request, start_s in zip(poisson.requests, starts_s, strict=True):
        ends_s = [end / 1e9 for end in poisson.token_ends_ns(request.index, request.input_tokens)]
        assert len(ends_s) == request.output_tokens
        assert request.ttft_s == ends_s[0] - start_s
        assert list(request.itl_s) == [after - before for before, after in pairwise(ends_s)]


def test_the_run_folder_tells_all(poisson: Run) -> None:
    folder = poisson.folder
    for path in (folder.config, folder.environment, folder.report, folder.summary, folder.prompts):
        assert path.stat().st_size > 0
    assert "GPU KV cache size" in folder.engine_log.read_text()
    assert "vllm:num_requests_running" in folder.metrics.read_text()
    assert "20 of 20 requests completed, 0 failed" in poisson.output


def test_the_same_results_with_all_cores_busy(
    poisson: Run, tmp_path: Path, busy_cores: Callable[[], AbstractContextManager[None]]
) -> None:
    with busy_cores():
        again = bench(tmp_path / "run", *POISSON)
    for name in ("requests.jsonl", "prompts.jsonl", "run.yaml"):
        files = [run.folder.path / name for run in (poisson, again)]
        assert files[0].read_bytes() == files[1].read_bytes(), name


@pytest.mark.thorough
def test_two_gpus_take_the_same_steps_with_twice_the_cache(poisson: Run, tmp_path: Path) -> None:
    both = bench(tmp_path / "run", *POISSON, "--gpu=h100-sxm:2")
    assert 2 * poisson.kv_cache_tokens < both.kv_cache_tokens < 2.5 * poisson.kv_cache_tokens
    for one, two in zip(poisson.requests, both.requests, strict=True):
        assert two.ttft_s == pytest.approx(one.ttft_s, abs=1e-9)
        assert two.itl_s == pytest.approx(one.itl_s, abs=1e-9)


def test_a_model_that_does_not_fit_is_the_engine_s_own_error(tmp_path: Path) -> None:
    with pytest.raises(
        AssertionError, match=r"before it was ready \(exit code 1\): .*out of memory"
    ):
        bench(tmp_path / "run", "--predictor=constant:20ms", "--model=llama-3.1-70b")
    log = (tmp_path / "run" / "engine.log").read_text()
    assert "CUDA out of memory. Tried to allocate" in log

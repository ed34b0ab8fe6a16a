"""Other people's clients against the real SGLang, unmodified: they print the steps' own time."""

from __future__ import annotations

import json
import re

import pytest

from tests.engine.pressure import Pressure
from tests.engine.test_clients import (
    OPENAI_TOKENS,
    REQUESTS,
    SECONDS_SINCE_1970_MS,
    STEP_MS,
    guidellm_requests,
)
from warpserve.bench.results import Outcome, read_vllm_results

STEP_S = STEP_MS / 1_000


@pytest.mark.parametrize("name", ["bench", "guidellm", "openai"])
def test_it_runs_to_its_end(sglang_pressure: Pressure, name: str) -> None:
    served = sglang_pressure.served
    assert served.exit_codes.get(name) == 0, served.log(name if served.exit_codes else "server")


def test_vllm_bench_serve(sglang_pressure: Pressure) -> None:
    """Of five prompts two are too long."""
    printed = sglang_pressure.served.log("bench")
    assert re.search(r"Successful requests: +3\b", printed), printed
    assert re.search(r"Failed requests: +2\b", printed), printed
    requests = read_vllm_results(sglang_pressure.served.folder / "bench.json")
    completed = [request for request in requests if request.outcome is Outcome.COMPLETED]
    assert len(completed) == 3
    for request in completed:
        assert request.ttft_s == pytest.approx(STEP_S, abs=1e-9)
        assert request.itl_s == pytest.approx([STEP_S] * 3, abs=1e-9)
    refused = [request for request in requests if request.outcome is Outcome.REJECTED]
    assert len(refused) == 2
    assert all(request.ttft_s is None for request in refused)


def test_guidellm(sglang_pressure: Pressure) -> None:
    requests = guidellm_requests(sglang_pressure.served, "guidellm")
    assert len(requests) == REQUESTS
    for request in requests:
        for name in ("time_to_first_token_ms", "inter_token_latency_ms"):
            assert request[name] == pytest.approx(STEP_MS, abs=SECONDS_SINCE_1970_MS), name


def test_a_script_with_the_openai_package(sglang_pressure: Pressure) -> None:
    streamed, whole = map(json.loads, sglang_pressure.served.log("openai").splitlines())
    ends_s = [STEP_S * (index + 1) for index in range(OPENAI_TOKENS)]
    assert streamed["stamps_s"] == pytest.approx(ends_s, abs=1e-9)
    assert whole["stamps_s"] == pytest.approx(ends_s[-1:], abs=1e-9)

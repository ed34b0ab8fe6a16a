"""Which readings of an engine's metrics a run keeps."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from warpserve.bench.metrics import drop_later_readings
from warpserve.bench.results import RequestResult
from warpserve.bench.run_folder import RunFolder
from warpserve.bench.scrape import _parsed


@pytest.fixture
def kept_s(tmp_path: Path) -> Callable[..., list[float]]:
    """The readings that are left of one each second, from 1000 s to 1009 s."""
    folder = RunFolder.create(tmp_path / "run")

    def kept(*requests: RequestResult) -> list[float]:
        readings = [{"time_ns": second * 10**9, "metrics": {}} for second in range(1000, 1010)]
        folder.metrics.write_text("".join(json.dumps(reading) + "\n" for reading in readings))
        drop_later_readings(folder, requests)
        return [
            json.loads(line)["time_ns"] / 1e9 for line in folder.metrics.read_text().splitlines()
        ]

    return kept


def answered(end_s: float) -> RequestResult:
    return RequestResult(
        index=0,
        start_s=end_s - 0.75,
        input_tokens=8,
        output_tokens=2,
        ttft_s=0.5,
        itl_s=(0.25,),
        error=None,
    )


@pytest.mark.parametrize(("end_s", "last_s"), [(1003.25, 1004), (1003.0, 1004), (1008.5, 1009)])
def test_one_after_the_last_answer(
    kept_s: Callable[..., list[float]], end_s: float, last_s: float
) -> None:
    assert kept_s(answered(1001.5), answered(end_s))[-1] == last_s


def test_all_where_nobody_was_answered(kept_s: Callable[..., list[float]]) -> None:
    failed = answered(1003.25).model_copy(update={"ttft_s": None, "error": "HTTP 500"})
    assert len(kept_s(failed)) == 10


def test_what_belongs_to_the_host_is_left_out() -> None:
    told = """\
# HELP sglang:num_retracted_reqs The number of retracted requests.
sglang:num_retracted_reqs{model_name="m",pid="4711",tp_rank="0"} 2.0
sglang:num_paused_reqs{pid="4711",tp_rank="0"} 1.0
sglang:queue{tp_rank="0",pid="4711"} 3.0
sglang:grid{stupid="1"} 4.0
sglang:scheduler_process_cpu_seconds_total{tp_rank="0"} 1.9
process_cpu_seconds_total 2.5
ttft_bucket{le="0.1"} 7.0
"""
    assert _parsed(told, ()) == {
        'sglang:num_retracted_reqs{model_name="m",tp_rank="0"}': 2.0,
        'sglang:num_paused_reqs{tp_rank="0"}': 1.0,
        'sglang:queue{tp_rank="0"}': 3.0,
        'sglang:grid{stupid="1"}': 4.0,
    }

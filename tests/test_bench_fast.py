"""The light client without an engine: what it reads in step logs, and when its timers fire."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.harness import CLIENTS, Warpserve
from warpserve.bench.client.streamed_loop import epoll_wait_ns
from warpserve.bench.results import read_fast_results
from warpserve.bench.run_folder import RunError
from warpserve.bench.steps import StepLog, index_of
from warpserve.bench.workload.arrivals import Arrival

MS = 1_000_000


def step(end_ns: int, **requests: list[Any]) -> str:
    """A line of a step log; ``r3=[new, cached, is prefill]`` is request 3."""
    names = [f"cmpl-request-{name[1:]}-0-5e3a" for name in requests]
    return json.dumps({"end_ns": end_ns, "request_ids": names, "requests": [*requests.values()]})


def ends_ns(log: StepLog) -> list[int]:
    return [found.end_ns for steps in log.read().values() for found in steps]


def test_a_request_gets_a_token_when_all_its_known_tokens_are_computed(tmp_path: Path) -> None:
    lines = [
        step(1, r0=[60, 0, True]),
        step(2, r0=[40, 60, True], r1=[20, 0, True]),
        step(3, r0=[1, 100, False]),
        step(4, r0=[60, 0, True]),  # preempted, it starts over: 100 of its prompt, 2 answered
        step(5, r0=[40, 60, True]),
        step(6, r0=[2, 100, True]),
    ]
    (tmp_path / "steps-1.jsonl").write_text("\n".join(lines) + "\n")
    assert ends_ns(StepLog(tmp_path, lambda _: 100)) == [2, 3, 6]


def test_a_log_is_read_while_it_grows(tmp_path: Path) -> None:
    log = StepLog(tmp_path, lambda _: 1)
    assert ends_ns(log) == []
    line = step(7, r0=[1, 0, False])
    with (tmp_path / "steps-1.jsonl").open("w", buffering=1) as file:
        for text, found in ((line[:20], []), (f"{line[20:]}\n{line[:5]}", [7]), ("", [])):
            file.write(text)
            file.flush()
            assert ends_ns(log) == found
    log.close()


def test_requests_of_the_workload_are_told_from_others() -> None:
    assert index_of("cmpl-request-12-0-8dae7f13") == 12
    assert index_of("cmpl-8dae7f132e8a5eeb-0-b81730d6") is None


def test_arrivals_are_those_of_vllm_bench_serve() -> None:
    # np.random.seed(3), vllm.benchmarks.serve.get_request with 5 requests at 4 a second
    poisson = Arrival.parse("poisson")
    assert poisson.times_s(5, 4.0, 3) == [
        0.18785877135237883,
        0.4769436678733217,
        0.55763936610896,
        0.7254883598638704,
        1.25,
    ]
    assert poisson.times_s(3, float("inf"), 3) == [0, 0, 0]


@pytest.mark.parametrize(
    ("timeout_s", "wait_ns"),
    [
        (0.0, 0),
        (-1.0, 0),
        (1e-9, MS),
        (0.001, MS),
        (0.0103, 11 * MS),
        (0.012000000000043656, 14 * MS),  # 13 * 1e-3 s is more than 13 ms, and rounded up again
    ],
)
def test_epoll_waits_for_whole_milliseconds(timeout_s: float, wait_ns: int) -> None:
    assert epoll_wait_ns(timeout_s) == wait_ns


@pytest.mark.parametrize("logged_at", ["begin", "end"])
def test_timers_fire_as_in_a_loop_that_steps_wake_up(warpserve: Warpserve, logged_at: str) -> None:
    outcome = warpserve.run([sys.executable, CLIENTS / "streamed_loop.py", logged_at])
    assert outcome.exit_code == 0, outcome.stderr
    streamed, quiet = json.loads(outcome.stdout)
    assert quiet == streamed
    off_the_grid = [at_s for at_s in streamed if round(at_s * 1e9) % MS]
    assert len(off_the_grid) > 100, "steps have moved the grid of milliseconds"


def results(folder: Path, lines: list[str], **columns: Any) -> list[Any]:
    document = {
        "start_times": [0.5],
        "end_times": [0.7],
        "input_lens": [10],
        "output_lens": [3],
        "errors": [""],
    }
    (folder / "client.json").write_text(json.dumps(document | columns))
    (folder / "steps").mkdir()
    for worker in (1, 2):  # of a tensor-parallel group
        (folder / "steps" / f"steps-{worker}.jsonl").write_text("\n".join([*lines, ""]))
    return read_fast_results(folder / "client.json", folder / "steps")


THREE_TOKENS = [
    step(520 * MS, r0=[10, 0, True]),
    step(600 * MS, r0=[1, 10, False]),
    step(700 * MS, r0=[1, 11, False]),
]


def test_times_of_tokens_come_from_the_steps(tmp_path: Path) -> None:
    (request,) = results(tmp_path, THREE_TOKENS)
    assert request.ttft_s == 0.52 - 0.5
    assert request.itl_s == (0.6 - 0.52, 0.7 - 0.6)


def test_a_failed_request_has_no_times(tmp_path: Path) -> None:
    (request,) = results(tmp_path, [], errors=["Bad Request"], output_lens=[0])
    assert (request.ttft_s, request.itl_s, request.error) == (None, (), "Bad Request")


@pytest.mark.parametrize("columns", [{"output_lens": [4]}, {"end_times": [0.701]}])
def test_steps_that_contradict_the_answer_are_an_error(
    tmp_path: Path, columns: dict[str, Any]
) -> None:
    with pytest.raises(RunError, match=r"request 0 got .* run it without --fast"):
        results(tmp_path, THREE_TOKENS, **columns)

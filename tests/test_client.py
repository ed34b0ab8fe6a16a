"""Our client without an engine: when it sends, and what it reads in answers and step logs."""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.harness import CLIENTS, Warpserve
from warpserve.bench.client.sender import Sender, Timing
from warpserve.bench.client.server import Answer
from warpserve.bench.client.streamed_loop import epoll_wait_ns
from warpserve.bench.models import model_named
from warpserve.bench.results import Outcome, RequestResult, read_fast_results, read_vllm_results
from warpserve.bench.run_folder import RunError
from warpserve.bench.steps import StepLog, index_of
from warpserve.bench.workload import Arrival, Planned, Request, plan, write_prompts
from warpserve.patches.tokens import GIVEN_OUTPUT

MS = 1_000_000
TOKEN_NS = 10 * MS


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


def test_a_rank_without_requests_gives_no_tokens(tmp_path: Path) -> None:
    """Its step has a dummy of no one's, as vLLM's replicas that share experts have it."""
    dummy = json.dumps({"end_ns": 1, "request_ids": [], "requests": [[1, 0, False]]})
    (tmp_path / "steps-1.jsonl").write_text(f"{dummy}\n{step(2, r0=[9, 0, True])}\n")
    assert ends_ns(StepLog(tmp_path, lambda _: 9)) == [2]


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


@dataclass(frozen=True)
class Sent:
    """What the server was asked, by request, and what the client made of it."""

    asked: dict[int, dict[str, Any]]
    results: list[RequestResult]
    client: dict[str, Any]
    order: list[int]

    def at_ns(self, index: int) -> int:
        """From the first request on."""
        return int(self.asked[index]["at_ns"] - self.asked[0]["at_ns"])


def sent(
    warpserve: Warpserve, folder: Path, planned: list[Planned], *options: str, model: str = "m"
) -> Sent:
    prompts, out = folder / "prompts.jsonl", folder / "client.json"
    write_prompts(prompts, planned, model_named("llama-3.1-8b").tokenizer(), 0, as_text=False)
    server = CLIENTS / "completions.py"
    outcome = warpserve.run([sys.executable, server, model, prompts, out, *options])
    assert outcome.exit_code == 0, outcome.stderr
    asked = json.loads(outcome.stdout)
    order = [int(request["id"].removeprefix("request-")) for request in asked]
    return Sent(
        dict(zip(order, asked, strict=True)),
        read_vllm_results(out),
        json.loads(out.read_text()),
        order,
    )


def test_recorded_arrivals_are_sent_to_the_nanosecond(warpserve: Warpserve, tmp_path: Path) -> None:
    times_ns = [0, 0, 1_234_567, 1_234_567, 900_000_001, 3_600_000_000_000]
    requests = [Request(20, 3, arrival_ns=time_ns) for time_ns in times_ns]
    run = sent(warpserve, tmp_path, plan(requests, Arrival.parse("trace")))
    assert run.order == list(range(6))
    assert [run.at_ns(i) for i in range(6)] == [at + i for i, at in enumerate(times_ns)]
    for request in run.results:
        assert request.ttft_s == pytest.approx(0.01, abs=1e-9)
        assert request.itl_s == pytest.approx([0.01, 0.01], abs=1e-9)
        assert (request.input_tokens, request.output_tokens) == (20, 3)


def test_a_closed_loop_sends_the_next_when_an_answer_has_come(
    warpserve: Warpserve, tmp_path: Path
) -> None:
    requests = [Request(20, tokens) for tokens in (5, 2, 1, 1, 1)]
    planned = plan(requests, Arrival.parse("closed:2"))
    run = sent(warpserve, tmp_path, planned, "--max-concurrency", "2")
    assert run.order == list(range(5))
    due_ns = [0, 0, 2 * TOKEN_NS, 3 * TOKEN_NS, 4 * TOKEN_NS]
    apart_ns = [run.at_ns(i) - due_ns[i] for i in range(5)]
    assert all(0 <= apart <= 10 for apart in apart_ns), apart_ns


def test_a_session_goes_on_with_what_was_said(warpserve: Warpserve, tmp_path: Path) -> None:
    requests = [
        Request(20, 3, arrival_ns=0, session="a"),
        Request(30, 2, arrival_ns=5 * MS, session="b"),
        Request(4, 2, session="a", think_ns=7_000_001),
        Request(5, 1, session="a"),
    ]
    run = sent(warpserve, tmp_path, plan(requests, Arrival.parse("trace")))
    first, second, third = (run.asked[index] for index in (0, 2, 3))
    assert all(turn["return_token_ids"] for turn in (first, second, third))
    assert second["prompt"][:23] == [*first["prompt"], 10_001, 10_002, 10_003]
    assert third["prompt"][:29] == [*second["prompt"], 10_001, 10_002]
    assert [request.input_tokens for request in run.results] == [20, 30, 27, 34]
    assert run.at_ns(2) == 3 * TOKEN_NS + 7_000_001 + 2
    assert run.at_ns(3) == run.at_ns(2) + 2 * TOKEN_NS + 3


def test_turns_after_a_refused_one_are_not_sent(warpserve: Warpserve, tmp_path: Path) -> None:
    requests = [
        Request(1_001, 1, arrival_ns=0, session="a"),
        Request(5, 1, session="a"),
        Request(5, 1, session="a"),
        Request(20, 1, arrival_ns=MS),
    ]
    run = sent(warpserve, tmp_path, plan(requests, Arrival.parse("trace")))
    assert run.order == [0, 3]
    outcomes = [request.outcome for request in run.results]
    assert outcomes == [
        Outcome.REJECTED,
        Outcome.NOT_SENT,
        Outcome.NOT_SENT,
        Outcome.COMPLETED,
    ]
    assert run.results[0].error == "HTTP 400 Bad Request: too long"
    assert run.results[2].error == "not sent: request 0 before it failed"


def test_a_session_needs_to_be_told_what_was_generated(
    warpserve: Warpserve, tmp_path: Path
) -> None:
    requests = [Request(20, 3, session="a"), Request(4, 2, session="a")]
    run = sent(warpserve, tmp_path, plan(requests, Arrival.parse("burst")), model="silent")
    outcomes = [request.outcome for request in run.results]
    assert outcomes == [Outcome.FAILED, Outcome.NOT_SENT]
    assert "told 0 of 3 token ids" in (run.results[0].error or "")


def test_answers_that_the_workload_gives_are_asked_for(
    warpserve: Warpserve, tmp_path: Path
) -> None:
    requests = [Request(2, 2, prompt_token_ids=(7, 8), output_token_ids=(5, 6))]
    run = sent(warpserve, tmp_path, plan(requests, Arrival.parse("burst")))
    assert run.asked[0]["prompt"] == [7, 8]
    assert run.asked[0]["vllm_xargs"] == {GIVEN_OUTPUT: "5,6"}


def test_two_runs_are_the_same(warpserve: Warpserve, tmp_path: Path) -> None:
    requests = [Request(20, 1 + i % 4, session=f"s{i % 7}") for i in range(40)]
    planned = plan(requests, Arrival.parse("gamma:0.3"), rate=200.0, seed=1)
    runs = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        runs.append(sent(warpserve, tmp_path / name, planned, "--max-concurrency", "3"))
    assert runs[0].order == runs[1].order
    times_ns = [[run.at_ns(index) for index in range(40)] for run in runs]
    assert times_ns[0] == times_ns[1]


def test_a_fault_of_the_client_ends_it() -> None:
    async def send(index: int) -> Answer:
        await asyncio.sleep(0.001)
        if index == 1:
            raise ValueError("broken")
        return Answer(0.0)

    async def run() -> None:
        await Sender(send, [Timing(0), Timing(0), Timing(60)], None).run()

    with pytest.raises(ValueError, match="broken"):
        asyncio.run(run())

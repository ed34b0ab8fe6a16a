"""Workloads that only our own client can send, with the real vLLM."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.engine.runs import Run, bench
from warpserve.bench.models import model_named
from warpserve.bench.report.timeline import read_samples
from warpserve.bench.workload import Request, requests_of

STEP_S = 0.02
BLOCK_TOKENS = 16
ANSWER = [7_000 + 3 * i for i in range(40)]
SESSIONS = [
    {"arrival_s": 0, "input_tokens": 100, "output_token_ids": ANSWER, "session": "a"},
    {"arrival_s": 0.313, "input_tokens": 64, "output_tokens": 9, "session": "b"},
    {"input_tokens": 30, "output_tokens": 20, "session": "a", "think_ms": 1_507},
    {"arrival_s": 1.1009, "prompt": "How late is it?", "output_tokens": 4},
    {"input_tokens": 1, "output_tokens": 2, "session": "b"},
    {"input_tokens": 50, "output_tokens": 3, "session": "a", "think_s": 0.0503},
    {"arrival_s": 4.5, "input_tokens": 2, "output_tokens": 1},  # metrics are sampled before it
]


def cache_hits(run: Run) -> int:
    """Tokens of prompts that vLLM says it has found in its prefix cache."""
    metrics: dict[str, float] = read_samples(run.folder.metrics)[-1]["metrics"]
    return round(sum(v for name, v in metrics.items() if "prefix_cache_hits_total" in name))


def promised_hits(requests: list[Request]) -> int:
    """Of all requests, the tokens before the first hash that none before had.

    In whole blocks of the engine's, and never all of a prompt: its last token is computed.
    """
    seen: set[int] = set()
    hits = 0
    for request in requests:
        shared_tokens = 0
        for segment in request.segments:
            if segment.key not in seen:
                break
            shared_tokens += segment.tokens
        hits += min(shared_tokens, request.input_tokens - 1) // BLOCK_TOKENS * BLOCK_TOKENS
        seen |= {segment.key for segment in request.segments}
    return hits


def test_hashes_of_a_trace_are_found_in_the_prefix_cache(tmp_path: Path) -> None:
    options = ("--workload=mooncake-synthetic", "--arrival=trace", "--num-requests=60", "--fast")
    run = bench(tmp_path / "run", "--predictor=constant:20ms", "--gpu=h200", *options)
    requests = requests_of("mooncake-synthetic", 60, 0, model_named("llama-3.1-8b").tokenizer())
    assert [r.input_tokens for r in run.requests] == [r.input_tokens for r in requests]
    assert promised_hits(requests) > 30_000
    assert cache_hits(run) == promised_hits(requests)
    origin_s = run.requests[0].start_s
    for sent, request in zip(run.requests, requests, strict=True):
        assert request.arrival_ns is not None
        due_s = request.arrival_ns / 1e9 + sent.index / 1e9
        assert sent.start_s - origin_s == pytest.approx(due_s, abs=1e-12)


@pytest.fixture(scope="module")
def sessions(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Run]:
    """One streamed, one fast."""
    folder = tmp_path_factory.mktemp("sessions")
    workload = folder / "sessions.jsonl"
    workload.write_text("".join(f"{json.dumps(row)}\n" for row in SESSIONS))
    options = (
        "--predictor=constant:20ms",
        f"--workload={workload}",
        "--arrival=trace",
        "--num-requests=7",
    )
    return bench(folder / "streamed", *options), bench(folder / "fast", "--fast", *options)


def test_a_turn_is_sent_think_time_after_the_answer_before_it(sessions: tuple[Run, Run]) -> None:
    streamed, _ = sessions
    origin_s = streamed.requests[0].start_s
    starts_s = [request.start_s - origin_s for request in streamed.requests]
    ends_s = [
        start_s + (request.latency_s or 0)
        for start_s, request in zip(starts_s, streamed.requests, strict=True)
    ]
    due_s = [0, 0.313, ends_s[0] + 1.507, 1.1009, ends_s[1], ends_s[2] + 0.0503, 4.5]
    assert starts_s == pytest.approx([s + i * 1e-9 for i, s in enumerate(due_s)], abs=1e-12)
    assert ends_s[0] == pytest.approx(40 * STEP_S, abs=1e-12)
    assert streamed.requests[2].ttft_s == pytest.approx(STEP_S, abs=1e-12)
    for request in streamed.requests:
        assert request.itl_s == pytest.approx([STEP_S] * (request.output_tokens - 1), abs=1e-12)


def test_a_turn_s_prompt_is_the_conversation_so_far(sessions: tuple[Run, Run]) -> None:
    text = len(model_named("llama-3.1-8b").tokenizer().encode("How late is it?").ids)
    inputs = [100, 64, 100 + 40 + 30, text, 64 + 9 + 1, 100 + 40 + 30 + 20 + 50, 2]
    before = [100 + 40 - 1, 64 + 9 - 1, 170 + 20 - 1]  # the last token is not computed
    for run in sessions:
        assert [request.input_tokens for request in run.requests] == inputs
        assert cache_hits(run) == sum(n // BLOCK_TOKENS * BLOCK_TOKENS for n in before)


def test_an_answer_is_the_one_that_the_workload_gives(sessions: tuple[Run, Run]) -> None:
    tokenizer = model_named("llama-3.1-8b").tokenizer()
    for run in sessions:
        assert run.client["generated_texts"][0] == tokenizer.decode(ANSWER)


def test_without_streaming_every_time_is_the_same(sessions: tuple[Run, Run]) -> None:
    streamed, fast = sessions
    for one, other in zip(streamed.requests, fast.requests, strict=True):
        assert other == one

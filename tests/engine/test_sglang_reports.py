"""What users have reported of an SGLang server, told by its number: the emulator must show it, too.

| report | what |
|---|---|
| sglang 33984 | a smaller --hicache-ratio before a slow storage: fewer prompt tokens are found |
| sglang 32724 | a prefetch that has been read waits until the scheduler asks for it |
| sglang 12809 | a storage that is slower than computing: no gain in TTFT |
| vllm 10432, 42381 | bad input: refused at once, and the server goes on |
| vllm 21104, 45502, 39963 | the rate that was asked for, with long contexts too |
| inference-sim 1057 | with a tight KV cache all requests end |

Elsewhere: a client that reports TTFT and ITL of zero (sglang 12389, 6525), in
``tests/test_sglang_patches.py`` and ``tests/test_real_runs.py``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.engine.pressure import Pressure
from tests.engine.served import Answered, Request, prompt
from tests.engine.sessions import MODEL, sessions
from tests.engine.sglang_pressure import GROWING, GROWING_TOKENS, KV_TOKENS
from tests.engine.sglang_served import IS_OLD, serve_sglang
from tests.harness import Warpserve

STEP_S = 0.02
TOKEN_BYTES = 131_072
PROMPT, PAGE, CHUNK = 4_000, 64, 512
CHUNKS = -(-PROMPT // CHUNK)
CACHED = PROMPT // PAGE * PAGE
READ_S = CACHED * TOKEN_BYTES / 1e9
"""Of the storage's 1 GB/s."""
needs_sim = pytest.mark.skipif(IS_OLD, reason="the storage tier `sim` came with SGLang 0.5.23")
FILLERS = 7
WAITING = 5
SENT_LATER_S = 0.001


# --- requests of all kinds, on one server ---------------------------------------------------------


def test_bad_input_is_refused_at_once_and_the_next_request_served(
    sglang_pressure: Pressure,
) -> None:
    """A prompt that fits the model and not the KV cache is refused by the scheduler, with a step of
    a single token, as on a GPU.
    """
    negative, too_long, too_large, served = sglang_pressure.load("refused").answers
    refused = (
        (negative, "max_tokens must be positive", 0.0),
        (too_long, "longer than the model's context length (65536 tokens)", 0.0),
        (too_large, "exceeds the maximum allowed length", STEP_S),
    )
    for answer, complaint, took_s in refused:
        assert answer["status"] == 400
        assert complaint in answer["answer"]["message"]
        assert answer["took_s"] == pytest.approx(took_s, abs=1e-9)
    assert (served["status"], served["took_s"]) == (200, pytest.approx(3 * STEP_S, abs=1e-9))


def test_prompts_of_46_000_tokens_keep_their_rate(sglang_pressure: Pressure) -> None:
    for index, answer in enumerate(sglang_pressure.load("long_texts").answers):
        assert answer["answer"]["usage"]["prompt_tokens"] > 46_000
        asyncio_rounds_up_to_s = 0.001
        assert 0 <= answer["sent_s"] - 0.5 * index + 1e-9 < asyncio_rounds_up_to_s + 2e-9
        chunks_and_a_token = 6 + 1
        assert answer["took_s"] == pytest.approx(chunks_and_a_token * STEP_S, abs=1e-9)


def test_all_requests_end_in_a_bounded_number_of_steps(sglang_pressure: Pressure) -> None:
    load = sglang_pressure.load("growing")
    assert load.statuses == [200] * GROWING
    assert {answer["answer"]["usage"]["completion_tokens"] for answer in load.answers} == {
        GROWING_TOKENS
    }
    assert load.metric("sglang:num_retracted_requests_total") > 0
    steps = sglang_pressure.steps(load)
    assert len(steps) < 5 * GROWING_TOKENS
    kept = [sum(new + cached for new, cached, _ in step["requests"]) for step in steps]
    assert max(kept) <= KV_TOKENS


# --- HiCache --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tiers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Answered]:
    """Of seven prompts GPU and host hold the last four; then, from storage: one alone, and one
    behind others that are new.
    """
    fill = [[asked(prompt(number, PROMPT), f"fill-{number}")] for number in range(FILLERS)]
    new = [asked(prompt(100 + number, PROMPT), f"new-{number}") for number in range(WAITING)]
    behind = asked(prompt(1, PROMPT), "behind") | {"delay_s": 1 + SENT_LATER_S}
    with sessions() as warpserve:
        yield serve_sglang(
            warpserve,
            tmp_path_factory.mktemp("tiers"),
            MODEL,
            f"--chunked-prefill-size={CHUNK}",
            f"--max-total-tokens={2 * PROMPT + 2_000}",
            *hicache("--hicache-size=2", read_gb_per_s=1),
            bursts=[*fill, [asked(prompt(0, PROMPT), "alone")], [*new, behind]],
        )


def asked(tokens: list[int], rid: str) -> Request:
    """For one token, and what SGLang says about how it came. A second after the last answer, when
    all is written that was to be stored.
    """
    sampling = {"max_new_tokens": 1, "ignore_eos": True}
    body = {"input_ids": tokens, "sampling_params": sampling, "rid": rid}
    return {"path": "/generate", "body": body, "delay_s": 1}


def hicache(*size: str, read_gb_per_s: float, policy: str = "wait_complete") -> Sequence[str]:
    speeds = {"sim_read_gbps": read_gb_per_s, "sim_write_gbps": 10, "sim_op_latency_us": 0}
    return (
        "--enable-hierarchical-cache",
        *size,
        f"--page-size={PAGE}",
        "--hicache-storage-backend=sim",
        f"--hicache-storage-prefetch-policy={policy}",
        f"--hicache-storage-backend-extra-config={json.dumps(speeds)}",
    )


def told(answer: dict[str, Any]) -> dict[str, Any]:
    assert answer["status"] == 200, answer
    meta: dict[str, Any] = json.loads(answer["text"])["meta_info"]
    return meta


@needs_sim
def test_a_slow_storage_does_not_shorten_the_time_to_the_first_token(tiers: Answered) -> None:
    computed, stored = told(tiers.answers[0][0]), told(tiers.answers[FILLERS][0])
    assert computed["e2e_latency"] == pytest.approx(CHUNKS * STEP_S, abs=1e-3)
    assert stored["cached_tokens_details"]["storage"] == CACHED
    assert stored["storage_prefetch_wait"] == pytest.approx(READ_S, rel=0.02)
    assert stored["e2e_latency"] == pytest.approx(READ_S + STEP_S, rel=0.02)
    assert stored["e2e_latency"] > computed["e2e_latency"]


@needs_sim
def test_a_prefetch_that_has_been_read_waits_until_the_scheduler_asks_for_it(
    tiers: Answered,
) -> None:
    """When those before it leave room: what it computes itself goes with their last chunk."""
    *new, behind = map(told, tiers.answers[FILLERS + 1])
    last_of_those_before_s = max(meta["e2e_latency"] for meta in new)
    assert last_of_those_before_s == pytest.approx(WAITING * CHUNKS * STEP_S, abs=0.001)
    assert behind["cached_tokens_details"]["storage"] == CACHED
    assert behind["e2e_latency"] + SENT_LATER_S == pytest.approx(last_of_those_before_s, abs=0.001)
    assert behind["e2e_latency"] > 1.3 * READ_S


@needs_sim
@pytest.mark.thorough
def test_a_smaller_host_tier_before_a_slow_storage_finds_fewer_tokens(
    warpserve: Warpserve, tmp_path: Path
) -> None:
    """Four conversations of three turns each. GPU and host hold all of them, or half; what only the
    storage has is not waited for.
    """
    found = {}
    for ratio in (4, 1):
        served = serve_sglang(
            warpserve,
            tmp_path / str(ratio),
            MODEL,
            f"--max-total-tokens={PROMPT + 2_000}",
            *hicache(f"--hicache-ratio={ratio}", read_gb_per_s=0.1, policy="best_effort"),
            bursts=[
                [asked(prompt(number, 1_000 * turn), f"{number}-{turn}")]
                for turn in (1, 2, 3)
                for number in range(4)
            ],
        )
        tiers = [told(answer)["cached_tokens_details"] or {} for (answer,) in served.answers]
        found[ratio] = {
            name: sum(tier.get(name, 0) for tier in tiers) for name in ("device", "host", "storage")
        }
    all_pages = 4 * sum(turn * 1_000 // PAGE * PAGE for turn in (1, 2))
    assert sum(found[4].values()) == all_pages
    assert sum(found[1].values()) < 0.7 * all_pages
    assert found[4]["host"] > found[1]["host"] > 0

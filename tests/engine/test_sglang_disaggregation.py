"""SGLang's prefill-decode disaggregation: two servers, its managers, the stock router."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from tests.engine.apart import (
    CROWD,
    PROMPT,
    REQUESTS,
    STEP_MS,
    TOKENS,
    parts,
    results_since,
    serve_apart,
    transfer_ms,
)
from tests.engine.features import feature
from tests.engine.router import router_python
from tests.engine.served import Answered, Request
from tests.engine.sessions import sessions
from tests.engine.sglang_served import sglang_python
from tests.harness import Warpserve

QWEN = "Qwen/Qwen3-8B"
LAYERS = 36
TOKEN_BYTES = 2 * LAYERS * 8 * 128 * 2
CROWD_PROMPT = 500
_EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "prefill_decode.py"


@pytest.fixture(scope="module")
def apart(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Answered]:
    with sessions() as warpserve:
        yield served_by_sglang(warpserve, tmp_path_factory.mktemp("apart"))


def served_by_sglang(warpserve: Warpserve, folder: Path, backend: str = "mooncake") -> Answered:
    command: list[str | Path] = [
        sglang_python(), _EXAMPLE, "--router", router_python(), "--transfer-backend", backend,
        "--model-path", QWEN, "--skip-server-warmup",
    ]  # fmt: skip
    return serve_apart(warpserve, folder, command, asked, crowd_prompt=CROWD_PROMPT)


@feature(
    "Prefill-decode disaggregation with the stock router",
    "--disaggregation-mode prefill, --disaggregation-mode decode",
)
def test_prefill_and_decode_apart(apart: Answered) -> None:
    """The first that a client hears is after a prefill, the transfer of the KV at the network's
    bandwidth and a decode step; SGLang's own manager sends the KV in two blocks a layer (keys,
    values); each server takes the steps of its part.
    """
    blocks, bytes_ = verified(apart)
    assert blocks == (REQUESTS + CROWD) * 2 * LAYERS
    assert bytes_ == (REQUESTS * PROMPT + CROWD * CROWD_PROMPT) * TOKEN_BYTES


@feature("Prefill-decode disaggregation by NIXL", "--disaggregation-transfer-backend nixl")
@pytest.mark.thorough
def test_by_nixl(warpserve: Warpserve, tmp_path: Path) -> None:
    """Likewise, by SGLang's manager for NIXL: what is no KV, some kB of the host's memory for each
    request, is copied over the same network.
    """
    _, bytes_ = verified(served_by_sglang(warpserve, tmp_path, "nixl"))
    kv_bytes = (REQUESTS * PROMPT + CROWD * CROWD_PROMPT) * TOKEN_BYTES
    assert kv_bytes < bytes_ < kv_bytes + (REQUESTS + CROWD) * 100_000


def verified(apart: Answered) -> tuple[int, int]:
    """How many blocks and bytes were sent, if times and steps are right."""
    for (answer,) in apart.answers[1:REQUESTS]:  # the first one waits for the introduction
        first_ms, second_ms = answer["times_ms"][:2]
        # Page indices, some kB, take microseconds from one GPU's memory and to the other's.
        assert first_ms == pytest.approx(2 * STEP_MS + transfer_ms(TOKEN_BYTES), abs=0.005)
        assert second_ms - first_ms == pytest.approx(STEP_MS, abs=0.001)
    parts(apart)
    sent = re.findall(r"(\d+) blocks, (\d+) bytes", apart.log)
    blocks, bytes_ = (sum(int(found[place]) for found in sent) for place in (0, 1))
    return blocks, bytes_


@pytest.mark.thorough
def test_the_same_with_all_cores_busy(
    apart: Answered,
    warpserve: Warpserve,
    tmp_path: Path,
    busy_cores: Callable[[], AbstractContextManager[None]],
) -> None:
    with busy_cores():
        again = served_by_sglang(warpserve, tmp_path)
    assert results(apart) == results(again)


def results(served: Answered) -> dict[str, Any]:
    """Servers look for each other with timers; and before the requests come some that the router
    has asked for, to see whether the servers are well.
    """
    _, prefill = parts(served)
    alone = [step for step in prefill if step["requests"] == [[PROMPT, 0, True]]]
    return results_since(served, alone[1]["start_ns"])


def asked(tokens: list[int]) -> Request:
    """The router knows no completions of token ids, but SGLang's own requests."""
    sampling = {"max_new_tokens": TOKENS, "ignore_eos": True}
    body = {"input_ids": tokens, "sampling_params": sampling, "stream": True}
    return {"path": "/generate", "body": body}

"""vLLM's prefill-decode disaggregation: two servers, its NixlConnector, a proxy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from packaging.version import Version

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
from tests.engine.served import Answered, Request, completion, prompt
from tests.engine.sessions import ENGINE, sessions, vllm_bin
from tests.harness import Warpserve

MODEL = "meta-llama/Llama-3.1-8B-Instruct"
LAYERS = 32
TOKEN_BYTES = 2 * LAYERS * 8 * 128 * 2
BLOCK_TOKENS = 16
PIECES = LAYERS if Version(ENGINE.version) >= Version("0.33") else 2 * LAYERS
"""Of a block: keys and values of a layer lie together since 0.33."""
CROWD_PROMPT = 480
_EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "prefill_decode_vllm.py"


@pytest.fixture(scope="module")
def apart(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Answered]:
    with sessions() as warpserve:
        yield served_by_vllm(warpserve, tmp_path_factory.mktemp("apart"))


def served_by_vllm(warpserve: Warpserve, folder: Path) -> Answered:
    """At the end comes the first prompt again."""
    command: list[str | Path] = [vllm_bin() / "python", _EXAMPLE, MODEL, "--max-model-len=4096"]
    again = [asked(prompt(0, PROMPT))]
    return serve_apart(warpserve, folder, command, asked, crowd_prompt=CROWD_PROMPT, then=[again])


def asked(tokens: list[int]) -> Request:
    return completion(tokens, TOKENS)


@feature(
    "Prefill-decode disaggregation by NIXL",
    '--kv-transfer-config \'{"kv_connector":"NixlConnector"}\'',
)
def test_prefill_and_decode_apart(apart: Answered) -> None:
    """The first that a client hears is after a prefill, the transfer of the KV at the network's
    bandwidth and a decode step, beside the milliseconds in which vLLM looks whether it has come;
    each server takes the steps of its part. Of a prompt that the decoder knows it asks for the last
    block only.
    """
    for (answer,) in apart.answers[1:REQUESTS]:  # the first one waits for the introduction
        first_ms, second_ms = answer["times_ms"][:2]
        looking_ms = first_ms - 2 * STEP_MS - transfer_ms(TOKEN_BYTES)
        assert 0 <= looking_ms <= 4
        assert second_ms - first_ms == pytest.approx(STEP_MS, abs=0.001)
    decode, _ = parts(apart)
    assert len(decode) >= (REQUESTS + 1) * TOKENS
    tokens = REQUESTS * PROMPT + CROWD * CROWD_PROMPT + BLOCK_TOKENS
    assert apart.metrics["vllm:nixl_bytes_transferred_count"] == REQUESTS + CROWD + 1
    assert apart.metrics["vllm:nixl_bytes_transferred_sum"] == tokens * TOKEN_BYTES
    assert apart.metrics["vllm:nixl_num_descriptors_sum"] == tokens // BLOCK_TOKENS * PIECES


@pytest.mark.thorough
def test_the_same_with_all_cores_busy(
    apart: Answered,
    warpserve: Warpserve,
    tmp_path: Path,
    busy_cores: Callable[[], AbstractContextManager[None]],
) -> None:
    with busy_cores():
        again = served_by_vllm(warpserve, tmp_path)
    assert results(apart) == results(again)


def results(served: Answered) -> dict[str, Any]:
    _, prefill = parts(served)
    return results_since(served, prefill[1]["start_ns"])

"""vLLM's prefill-decode disaggregation: two servers, its NixlConnector, a proxy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from tests.engine.features import feature
from tests.engine.served import Answered, completion, prompt, serve_command
from tests.engine.sessions import sessions, vllm_bin
from tests.harness import Warpserve
from warpserve.patches.network import BANDWIDTH

MODEL = "meta-llama/Llama-3.1-8B-Instruct"
LAYERS = 32
TOKEN_BYTES = 2 * LAYERS * 8 * 128 * 2
BLOCK_TOKENS = 16
PROMPT = 2_000
GB_PER_S = 50
STEP_MS = 20.0
TOKENS = 5
REQUESTS = 3
"""One after the other; then a crowd, and the first prompt again."""
CROWD, CROWD_PROMPT = 6, 480
_EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "prefill_decode_vllm.py"


@pytest.fixture(scope="module")
def apart(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Answered]:
    with sessions() as warpserve:
        yield serve_apart(warpserve, tmp_path_factory.mktemp("apart"))


def serve_apart(warpserve: Warpserve, folder: Path) -> Answered:
    command: list[str | Path] = [
        vllm_bin() / "python", _EXAMPLE, MODEL, "--max-model-len=4096",
    ]  # fmt: skip
    one_by_one = [[completion(prompt(number, PROMPT), TOKENS)] for number in range(REQUESTS)]
    crowd = [
        completion(prompt(100 + number, CROWD_PROMPT), TOKENS) | {"delay_s": number // 2 * 0.03}
        for number in range(CROWD)
    ]
    again = [completion(prompt(0, PROMPT), TOKENS)]
    return serve_command(
        warpserve,
        folder,
        command,
        bursts=[*one_by_one, crowd, again],
        options=["--gpu=h100-sxm:2", "--predictor=constant:20ms"],
        env={BANDWIDTH: str(GB_PER_S)},
    )


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
    transfer_ms = PROMPT * TOKEN_BYTES / GB_PER_S / 1e9 * 1e3
    for (answer,) in apart.answers[1:REQUESTS]:  # the first one waits for the introduction
        first_ms, second_ms = answer["times_ms"][:2]
        looking_ms = first_ms - 2 * STEP_MS - transfer_ms
        assert 0 <= looking_ms <= 4
        assert second_ms - first_ms == pytest.approx(STEP_MS, abs=0.001)
    decode, prefill = parts(apart)
    assert all(row[2] for step in prefill for row in step["requests"])
    assert not any(row[2] for step in decode for row in step["requests"])
    assert len(decode) >= (REQUESTS + 1) * TOKENS
    tokens = REQUESTS * PROMPT + CROWD * CROWD_PROMPT + BLOCK_TOKENS
    assert apart.metrics["vllm:nixl_bytes_transferred_count"] == REQUESTS + CROWD + 1
    assert apart.metrics["vllm:nixl_bytes_transferred_sum"] == tokens * TOKEN_BYTES
    assert apart.metrics["vllm:nixl_num_descriptors_sum"] == tokens // BLOCK_TOKENS * 2 * LAYERS


@pytest.mark.thorough
def test_the_same_with_all_cores_busy(
    apart: Answered,
    warpserve: Warpserve,
    tmp_path: Path,
    busy_cores: Callable[[], AbstractContextManager[None]],
) -> None:
    with busy_cores():
        again = serve_apart(warpserve, tmp_path)
    assert results(apart) == results(again)


def parts(served: Answered) -> list[list[dict[str, Any]]]:
    """The decoder's steps, and those of the server that prefills: whichever began its log first."""
    return sorted(served.steps, key=lambda steps: steps[0]["requests"][0][2])


def results(served: Answered) -> dict[str, Any]:
    """From the second request on: the first one waits until the servers know each other."""
    decode, prefill = parts(served)
    start_ns = prefill[1]["start_ns"]
    steps = [
        [
            (step["start_ns"] - start_ns, step["end_ns"] - start_ns, step["requests"])
            for step in part
            if step["start_ns"] >= start_ns
        ]
        for part in (decode, prefill)
    ]
    return {"answers": served.answers[1:], "steps": steps}

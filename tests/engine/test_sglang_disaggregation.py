"""SGLang's prefill-decode disaggregation: two servers, Mooncake's manager, the stock router."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.engine.features import feature
from tests.engine.router import router_python
from tests.engine.served import Request, prompt, serve_command
from tests.engine.sglang_served import sglang_python
from tests.harness import Warpserve
from warpserve.patches.mooncake.engine import BANDWIDTH

QWEN = "Qwen/Qwen3-8B"
LAYERS = 36
TOKEN_BYTES = 2 * LAYERS * 8 * 128 * 2
PROMPT = 2_000
GB_PER_S = 50
STEP_MS = 20.0
TOKENS = 5
REQUESTS = 3
_EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "prefill_decode.py"


@feature(
    "Prefill-decode disaggregation with the stock router",
    "--disaggregation-mode prefill, --disaggregation-mode decode",
)
def test_prefill_and_decode_apart(warpserve: Warpserve, tmp_path: Path) -> None:
    """The first that a client hears is after a prefill, the transfer of the KV at the network's
    bandwidth and a decode step; SGLang's own manager sends the KV in two blocks a layer (keys,
    values); each server takes the steps of its part.
    """
    command: list[str | Path] = [
        sglang_python(), _EXAMPLE, "--router", router_python(),
        "--model-path", QWEN, "--skip-server-warmup",
    ]  # fmt: skip
    served = serve_command(
        warpserve,
        tmp_path,
        command,
        bursts=[[asked(prompt(number, PROMPT))] for number in range(REQUESTS)],
        options=["--gpu=h100-sxm:2", "--predictor=constant:20ms"],
        env={BANDWIDTH: str(GB_PER_S)},
    )
    transfer_ms = PROMPT * TOKEN_BYTES / GB_PER_S / 1e9 * 1e3
    for (answer,) in served.answers[1:]:  # the first one waits for the servers' introduction
        first_ms, second_ms = answer["times_ms"][:2]
        # Page indices, some kB, take microseconds from one GPU's memory and to the other's.
        assert first_ms == pytest.approx(2 * STEP_MS + transfer_ms, abs=0.005)
        assert second_ms - first_ms == pytest.approx(STEP_MS, abs=0.001)
    sent = re.findall(r"(\d+) blocks, (\d+) bytes", served.log)
    blocks, bytes_ = (sum(int(found[place]) for found in sent) for place in (0, 1))
    assert blocks == REQUESTS * 2 * LAYERS
    assert bytes_ == REQUESTS * PROMPT * TOKEN_BYTES
    decode, prefill = served.steps
    assert all(row[2] for step in prefill for row in step["requests"])
    assert not any(row[2] for step in decode for row in step["requests"])


def asked(tokens: list[int]) -> Request:
    """The router knows no completions of token ids, but SGLang's own requests."""
    sampling = {"max_new_tokens": TOKENS, "ignore_eos": True}
    body = {"input_ids": tokens, "sampling_params": sampling, "stream": True}
    return {"path": "/generate", "body": body}

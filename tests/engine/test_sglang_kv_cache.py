"""How much SGLang's KV cache holds, beside real servers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.engine.served import completion, prompt
from tests.engine.sglang_served import serve_sglang
from tests.harness import Warpserve

TOKENS = 367_404
"""Of Qwen3-235B-A22B in fp8 on four H100s, at 0.93: github.com/vllm-project/vllm/issues/21348."""


@pytest.mark.thorough
def test_what_connections_take_is_missing_from_the_cache(
    warpserve: Warpserve, tmp_path: Path
) -> None:
    served = serve_sglang(
        warpserve,
        tmp_path,
        "Qwen/Qwen3-235B-A22B-FP8",
        "--tp=4",
        "--mem-fraction-static=0.93",
        gpu="h100-sxm:4",
        bursts=[[completion(prompt(0, 10), 1)]],
    )
    said = re.search(r"max_total_num_tokens=(\d+)", served.log)
    assert said, served.log
    assert int(said[1]) == pytest.approx(TOKENS, rel=0.01)

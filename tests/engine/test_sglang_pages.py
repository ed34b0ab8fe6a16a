"""Page indices, free lists and radix caches of SGLang are those of a real device."""

from __future__ import annotations

import json

import pytest

from tests.engine.sessions import LIMIT_S
from tests.engine.sglang_served import sglang_python
from tests.harness import CLIENTS, Warpserve


@pytest.mark.parametrize(("page_size", "requests"), [(1, 10_000), (16, 3_000)])
def test_pages_are_those_of_torch_on_the_cpu(
    warpserve: Warpserve, page_size: int, requests: int
) -> None:
    outcome = warpserve.run(
        [sglang_python(), CLIENTS / "sglang_pages.py", str(page_size), str(requests), "5"],
        options=["--gpu=h100-sxm", "--predictor=constant:1ms"],
        limit_s=LIMIT_S,
    )
    assert outcome.exit_code == 0, outcome.stderr[-3_000:]
    counted = json.loads(outcome.stdout.splitlines()[-1])
    assert counted["found"] > requests / 5
    assert counted["evicted"] > 10_000

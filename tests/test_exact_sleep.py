"""Event loops whose sleeps end at the nanosecond."""

from __future__ import annotations

import json
import sys

import pytest

from tests.harness import CLIENTS, Warpserve


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_sleeps_take_what_was_said(warpserve: Warpserve, loop: str) -> None:
    outcome = warpserve.run([sys.executable, CLIENTS / "exact_sleeps.py", loop])
    assert outcome.exit_code == 0, outcome.stderr
    assert json.loads(outcome.stdout) == {
        "took_ns": [0, 1, 1_234, 999_999, 5_000_001, 2_000_000_000],
        "ended": [4, 1, 3, 2, 0],
    }

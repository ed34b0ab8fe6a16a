"""A public real run replayed, as a gate: the scoreboard (docs/results/accuracy.md) in one run.

By the vLLM that the tests have, which is not the recorded one; the scoreboard has that.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

REAL = Path(__file__).parents[1] / "data" / "llmservingsim" / "bench" / "RTXPRO6000"
SCALE = 1.01
"""Of aiconfigurator's step times for this card, about as the scoreboard fits it."""
LIMITS = (
    *("tpot.mean=1.5%", "tpot.p50=3%", "tpot.p99=4%"),
    *("ttft.mean=4%", "ttft.p50=7%", "ttft.p99=4%"),
    *("makespan=2%", "output_tokens=2%", "running=3%", "waiting=6%"),
)
"""What the scoreboard shows, with room: a gate for what breaks, not for what drifts."""


@pytest.fixture(scope="module")
def replayed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("replay") / "run"
    command = [
        sys.executable, "-m", "warpserve", "replay", str(REAL), "--gpu", "rtx-pro-6000", "--fast",
        "--engine", "vllm==0.24.0",
        "--predictor", f"aiconfigurator:scale={SCALE}", "--out", str(out),
        *(word for limit in LIMITS for word in ("--max-error", limit)),
    ]  # fmt: skip
    finished = subprocess.run(command, capture_output=True, text=True)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return out


def test_the_twin_has_the_recorded_requests_and_its_differences_are_named(replayed: Path) -> None:
    comparison = json.loads((replayed / "comparison.json").read_text())
    assert comparison["run"]["engine"] == "vllm 0.24.0"
    assert comparison["reals"][0]["engine"] == "vllm 0.19.0"
    assert comparison["run"]["completed"] == 300
    differing = {difference["what"] for difference in comparison["differences"]}
    assert differing == {"engine version", "times count from"}
    assert "Both sent the same requests in the same order." in comparison["notes"]


def test_the_page_is_there(replayed: Path) -> None:
    page = (replayed / "comparison.html").read_text()
    assert "mean TPOT by" in page
    assert page.count("<svg") >= 8

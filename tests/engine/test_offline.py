"""vLLM without a server: its offline benchmarks and a script, as they are, print the steps' time.

An engine core that has handed out its last token sleeps 1 ms before it looks for more: that is part
of every call but the first.
"""

from __future__ import annotations

import json
import re
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.engine.sessions import ENGINE, LIMIT_S, MODEL, on_gpu, read_steps, vllm_bin
from tests.harness import CLIENTS, Outcome, Warpserve

STEP_NS = 10_000_000
IDLE_CORE_NS = 0 if ENGINE.version == "0.19.0" else 1_000_000


def offline(warpserve: Warpserve, step_log: Path, program: str, *arguments: str) -> Outcome:
    options = on_gpu(step_log, predictor="constant:10ms")
    outcome = warpserve.run([vllm_bin() / program, *arguments], options=options, limit_s=LIMIT_S)
    assert outcome.exit_code == 0, outcome.stdout + outcome.stderr
    return outcome


def calls(steps: list[dict[str, Any]], prompts: int) -> list[list[dict[str, Any]]]:
    """The steps of each call: requests are numbered as they come, ``prompts`` a call."""
    return [
        list(of_call)
        for _, of_call in groupby(
            steps, key=lambda step: int(step["request_ids"][0].partition("-")[0]) // prompts
        )
    ]


POLL_S = 2e-9
"""A poll that waits for a deadline ends when it lies behind: 1 ns late (docs/limitations.md)."""


def seconds(start_ns: int, end_ns: int) -> Any:
    return pytest.approx((end_ns - start_ns) / 1e9, abs=POLL_S)


def test_bench_latency_prints_its_steps(warpserve: Warpserve, tmp_path: Path) -> None:
    outcome = offline(
        warpserve, tmp_path / "steps",
        "vllm", "bench", "latency", "--model", MODEL,
        "--input-len=32", "--output-len=16", "--batch-size=8",
        "--num-iters-warmup=2", "--num-iters=3", f"--output-json={tmp_path / 'latency.json'}",
    )  # fmt: skip
    result = json.loads((tmp_path / "latency.json").read_text())
    iterations = calls(read_steps(tmp_path / "steps"), prompts=8)
    assert len(iterations) == 2 + 3
    ends_ns = [steps[-1]["end_ns"] for steps in iterations[1:]]
    assert result["latencies"] == [seconds(before, after) for before, after in pairwise(ends_ns)]
    expected_s = (16 * STEP_NS + IDLE_CORE_NS) / 1e9
    assert result["avg_latency"] == pytest.approx(expected_s, abs=POLL_S)
    (printed,) = re.findall(r"Avg latency: ([\d.]+) seconds", outcome.stdout)
    assert float(printed) == result["avg_latency"]


def test_bench_throughput_is_tokens_over_virtual_time(warpserve: Warpserve, tmp_path: Path) -> None:
    outcome = offline(
        warpserve, tmp_path / "steps",
        "vllm", "bench", "throughput", "--model", MODEL, "--dataset-name=random",
        "--random-input-len=100", "--random-output-len=20", "--num-prompts=30",
        f"--output-json={tmp_path / 'throughput.json'}",
    )  # fmt: skip
    steps = read_steps(tmp_path / "steps")
    computed = sum(tokens for step in steps for tokens, _, _ in step["requests"])
    assert computed == 30 * (100 + 20 - 1), "of each answer all but the last token is computed"
    took_s = (steps[-1]["end_ns"] - steps[0]["start_ns"]) / 1e9
    result = json.loads((tmp_path / "throughput.json").read_text())
    assert result["elapsed_time"] == pytest.approx(took_s, abs=POLL_S)
    rates = (30 / took_s, 30 * 120 / took_s, 30 * 20 / took_s)
    assert ("Throughput: {:.2f} requests/s, {:.2f} total tokens/s, {:.2f} output tokens/s").format(
        *rates
    ) in outcome.stdout


def test_a_script_generates_in_the_time_of_its_steps(warpserve: Warpserve, tmp_path: Path) -> None:
    script = str(CLIENTS / "generate.py")
    outcome = offline(warpserve, tmp_path / "steps", "python", script, MODEL)
    two, one = map(json.loads, re.findall(r"^\{.*\}$", outcome.stdout, re.MULTILINE))
    steps = read_steps(tmp_path / "steps")
    last_of_two = max(step["end_ns"] for step in steps[:-8])
    assert two == {"took_s": seconds(steps[0]["start_ns"], last_of_two), "tokens": [8, 8]}
    assert one == {"took_s": seconds(last_of_two, steps[-1]["end_ns"]), "tokens": [8]}
    assert steps[-1]["end_ns"] - last_of_two == 8 * STEP_NS + IDLE_CORE_NS


def test_its_makers_are_told_of_no_virtual_gpu(warpserve: Warpserve, tmp_path: Path) -> None:
    ask = "from vllm.usage.usage_lib import is_usage_stats_enabled as f; print('told', f())"
    outcome = offline(warpserve, tmp_path / "steps", "python", "-c", ask)
    assert "told False" in outcome.stdout

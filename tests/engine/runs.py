"""Whole experiments with real engines, as a user starts them."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.engine.sessions import ENGINE
from warpserve.bench.kv_cache import kv_tokens
from warpserve.bench.results import RequestResult
from warpserve.bench.run_folder import RunFolder
from warpserve.bench.steps import REQUEST_PREFIX
from warpserve.patches.engines import EngineRequirement

TWO_RANKS = ("--gpu=h100-sxm:2", "--no-ghost-ranks")
THREE_SERVERS = ("--", "--api-server-count=3")
"""Options of `bench`: of what runs in several processes."""


@dataclass(frozen=True)
class Run:
    """A finished experiment."""

    folder: RunFolder
    output: str

    @property
    def requests(self) -> list[RequestResult]:
        lines = self.folder.requests.read_text().splitlines()
        return [RequestResult.model_validate_json(line) for line in lines]

    @property
    def client(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self.folder.client_result.read_text())
        return document

    @property
    def kv_cache_tokens(self) -> int:
        """As the engine says in its log."""
        tokens = kv_tokens(self.folder.engine_log.read_text())
        assert tokens is not None
        return tokens

    @property
    def steps(self) -> list[dict[str, Any]]:
        """Of all workers, in the order of their ends."""
        lines = [line for file in sorted(self.folder.steps.iterdir()) for line in file.open()]
        return sorted(map(json.loads, lines), key=lambda step: int(step["end_ns"]))

    def token_ends_ns(self, index: int, input_tokens: int) -> list[int]:
        """When the steps ended that gave request ``index`` a token."""
        name = f"-{REQUEST_PREFIX}{index}-"
        ends_ns = []
        for step in self.steps:
            for request_id, (new_tokens, cached_tokens, _) in zip(
                step["request_ids"], step["requests"], strict=True
            ):
                if name in request_id and cached_tokens + new_tokens >= input_tokens:
                    ends_ns.append(step["end_ns"])
        return ends_ns


def bench_command(out: Path, *options: str, engine: EngineRequirement = ENGINE) -> list[str]:
    """``warpserve bench`` with Llama-3.1-8B on an H100, and further options."""
    return [
        sys.executable, "-m", "warpserve", "bench",
        "--engine", str(engine), "--model", "llama-3.1-8b", "--gpu", "h100-sxm:1",
        "--out", str(out), *options,
    ]  # fmt: skip


def bench(out: Path, *options: str, engine: EngineRequirement = ENGINE) -> Run:
    """Runs that to its end, which must be a good one."""
    command = bench_command(out, *options, engine=engine)
    finished = subprocess.run(command, capture_output=True, text=True)
    if finished.returncode != 0:
        logs = [log.read_text(errors="replace")[-3_000:] for log in out.glob("*.log")]
        raise AssertionError("\n".join([finished.stdout, finished.stderr, *logs]))
    return Run(RunFolder(out), finished.stdout)

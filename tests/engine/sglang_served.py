"""The real SGLang as a user starts it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from tests.engine.served import Answered, Request, serve_command
from tests.harness import Warpserve
from warpserve.patches.engines import EngineRequirement, EngineStore

ENGINE_VARIABLE = "WARPSERVE_TEST_SGLANG"
SGLANG = EngineRequirement.parse(os.environ.get(ENGINE_VARIABLE, "sglang==0.5.23"))
"""What is under test: `make matrix` says other versions."""
IS_OLD = SGLANG.version == "0.5.14"
"""Has no storage tier `sim` and no token ids in completions; its metrics say how many requests were
running when it last logged a batch.
"""


def sglang_python() -> Path:
    """The engine's Python; without an engine a test that needs one fails."""
    return EngineStore().get(SGLANG).python


def serve_sglang(
    warpserve: Warpserve,
    folder: Path,
    model: str | Path,
    *flags: str,
    bursts: Sequence[Sequence[Request]],
    gpu: str = "h100-sxm:1",
    options: Sequence[str] = (),
    predictor: str = "constant:20ms",
    env: dict[str, str] | None = None,
) -> Answered:
    """``sglang.launch_server`` in a session of its own. ``options``: of `warpserve run`."""
    command = [
        sglang_python(), "-m", "sglang.launch_server", "--model-path", model,
        "--host", "127.0.0.1", "--enable-metrics", "--skip-server-warmup", *flags,
    ]  # fmt: skip
    options = [f"--gpu={gpu}", f"--predictor={predictor}", *options]
    return serve_command(warpserve, folder, command, bursts=bursts, options=options, env=env)

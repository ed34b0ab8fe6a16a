"""Versions of vLLM that the patches do not know: how large a KV cache they give themselves.

They come up as members of a session with virtual GPUs, unpatched (tests/clients/sizes_only), as far
as the size of the KV cache. That is all they are good for here: their steps would take no time.
Without compilation and CUDA graphs, which none of them counts when it sizes the cache.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.environments import older_vllm_python
from tests.harness import CLIENTS, free_port
from warpserve.bench.models import model_named
from warpserve.bench.run_folder import RunError
from warpserve.cuda_shim.launch import AUTOLOAD, AUTOLOAD_VARIABLE
from warpserve.members import MemberOptions, member_environment
from warpserve.timekeeper.launcher import RunningSession
from warpserve.timekeeper.options import SessionOptions

_FLAGS = ("--load-format", "dummy", "--enforce-eager")
_SETTINGS = {
    AUTOLOAD_VARIABLE: "0",
    "PYTHONPATH": f"{CLIENTS / 'sizes_only'}:{AUTOLOAD}",
    "VLLM_USE_V1": "1",  # until 0.9 an engine of before it was there, too
    "VLLM_WORKER_MULTIPROC_METHOD": "spawn",
    "HF_HUB_OFFLINE": "1",
}


def run_until(
    said: Callable[[str], bool],
    version: str,
    model: str,
    gpu: str,
    flags: Sequence[str],
    log: Path,
    limit_s: float,
) -> None:
    """Until its log has what is waited for. Raises RunError where it ends or takes too long."""
    python = older_vllm_python(version)
    command = [str(python), "-m", "vllm.entrypoints.cli.main", "serve"]
    command += [model_named(model).reference, "--port", str(free_port()), *_FLAGS, *flags]
    asked = MemberOptions(gpu=gpu, predictor="constant:10ms")
    with RunningSession(SessionOptions()) as session, log.open("wb") as output:
        env = member_environment(asked, session.folder, command) | _SETTINGS
        with Path(os.devnull).open("rb") as nothing:
            session.spawn(
                command, env=env, stdio=(nothing.fileno(), output.fileno(), output.fileno())
            )
        give_up_s = time.monotonic() + limit_s
        while time.monotonic() < give_up_s:
            if said(log.read_text(errors="replace")):
                return
            if session.wait_exited(0.5) is not None:
                raise RunError(f"vLLM {version} ended: see {log}")
    raise RunError(f"nothing after {limit_s} s")

"""`warpserve serve`: a server that clients outside of the session use."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
import urllib.request

from tests.engine.sessions import ENGINE
from tests.harness import Warpserve, free_port

TOKENS, STEP_S = 8, 0.05


def test_a_server_answers_at_the_pace_of_its_gpu_until_ctrl_c(warpserve: Warpserve) -> None:
    port = free_port()
    command = [
        sys.executable, "-P", "-m", "warpserve", "serve", str(ENGINE), "llama-3.1-8b",
        "--gpu=h100-sxm", "--predictor=constant:50ms", f"--port={port}", "--", "--max-num-seqs=8",
    ]  # fmt: skip
    # In a process group of its own: a test's Ctrl-C is for it alone.
    with subprocess.Popen(
        command,
        env=warpserve.environment(None),
        stderr=subprocess.STDOUT,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=heed_ctrl_c,
    ) as server:
        assert server.stdout is not None
        printed = []
        for line in server.stdout:
            printed.append(line)
            if line.startswith("warpserve: meta-llama/Llama-3.1-8B-Instruct at"):
                break
        else:
            raise AssertionError("".join(printed))
        begin_s = time.monotonic()
        answer = complete(port)
        assert time.monotonic() - begin_s >= TOKENS * STEP_S
        server.send_signal(signal.SIGINT)
        server.stdout.read()
    assert server.returncode == 0
    assert answer["usage"]["completion_tokens"] == TOKENS
    assert any("'max_num_seqs': 8" in line for line in printed), "the engine has its flags"


def heed_ctrl_c() -> None:
    """Where the tests were started in the background, a shell has it ignored by all below."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def complete(port: int) -> dict[str, dict[str, int]]:
    body = {
        "model": "meta-llama/Llama-3.1-8B-Instruct",
        "prompt": "How long?",
        "max_tokens": TOKENS,
        "ignore_eos": True,
    }
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/v1/completions",
        json.dumps(body).encode(),
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request) as answer:
        found: dict[str, dict[str, int]] = json.load(answer)
        return found

"""An SGLang server with a small KV cache, its clients one after the other, and who is killed.

Besides loads of our own: `vllm bench serve`, guidellm and a script with the openai package. The
last client sees the scheduler killed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.engine.pressure import (
    MAX_MODEL_TOKENS,
    Pressure,
    bench,
    client,
    killing,
    prompt,
    request,
    text,
)
from tests.engine.sessions import MODEL, serve_with
from tests.engine.sglang_served import sglang_python
from tests.engine.test_clients import guidellm
from tests.environments import client_python
from tests.harness import CLIENTS, free_port

KV_TOKENS = 50_000
GROWING, GROWING_TOKENS = 200, 400


def _growing() -> dict[str, Any]:
    """One that might end early, and never does: SGLang admits more of them than fit when grown."""
    asked = request(prompt(20), GROWING_TOKENS)
    return asked | {"body": asked["body"] | {"ignore_eos": False}}


_LOADS = {
    "refused": [
        request(prompt(10), output_tokens=-1),
        request(prompt(MAX_MODEL_TOKENS + 1), output_tokens=1, at_s=1),
        request(prompt(KV_TOKENS + 1), output_tokens=1, at_s=2),
        request(prompt(10), output_tokens=3, at_s=3),
    ],
    "long_texts": [
        request(f"{number}{text(foxes=4_600)}", output_tokens=2, at_s=0.5 * number)
        for number in range(3)
    ],
    "growing": [_growing() for _ in range(GROWING)],
}
_ABANDONED = [request(prompt(20), output_tokens=2_000) for _ in range(16)]


def sglang_under_pressure(folder: Path) -> Pressure:
    """Runs the session; all files go to ``folder``."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    python = sglang_python()
    clients = {
        name: client(folder, port, name, load, python=python) for name, load in _LOADS.items()
    }
    clients["bench"] = bench(folder, port)
    clients["guidellm"] = guidellm(url, folder / "guidellm.json", stream=True)
    clients["openai"] = [str(client_python()), str(CLIENTS / "openai_script.py"), f"{url}/v1"]
    for name, victim in (("killed_client", "client"), ("killed_scheduler", str(folder / "steps"))):
        abandoned = client(folder, port, name, _ABANDONED, python=python)
        clients[name] = killing(port, victim, abandoned)
    server = [
        str(python), "-m", "sglang.launch_server", "--model-path", MODEL,
        "--host", "127.0.0.1", "--port", str(port), "--enable-metrics", "--skip-server-warmup",
        "--max-total-tokens", str(KV_TOKENS), "--context-length", str(MAX_MODEL_TOKENS),
        "--schedule-conservativeness", "0.05",
    ]  # fmt: skip
    return Pressure(serve_with(folder, server, clients, port=port))

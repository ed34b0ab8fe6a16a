"""A vLLM server with a small KV cache, and what users have reported of such servers.

Llama-3.1-8B with the cache of an A10G under a model of 7B: 77,088 tokens, as one of the reports has
it. The clients come one after the other; the last of them sees the engine core killed.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.engine.sessions import MODEL, Served, serve, vllm_bin
from tests.harness import CLIENTS, free_port

STEP_S = 0.02
BLOCK_TOKENS = 16
KV_BLOCKS = 4_818
MAX_MODEL_TOKENS = 65_536
CONCURRENCY = 256

_random = random.Random(0)


@dataclass(frozen=True)
class Load:
    """What one client saw."""

    answers: list[dict[str, Any]]
    """As ``tests/clients/load.py`` writes them."""
    metrics: str
    """The server's, after the last answer."""

    @property
    def statuses(self) -> list[int]:
        return [answer["status"] for answer in self.answers]

    def metric(self, name: str) -> float:
        """Since the server's start."""
        (value,) = re.findall(rf"^{name}\{{.*\}} (\S+)$", self.metrics, re.MULTILINE)
        return float(value)


@dataclass(frozen=True)
class Pressure:
    """The session after its end."""

    served: Served

    def load(self, name: str) -> Load:
        return Load(**json.loads((self.served.folder / f"{name}.json").read_text()))

    def steps(self, load: Load) -> list[dict[str, Any]]:
        """The steps that computed the answers of a client."""
        ids = {answer["answer"]["id"] for answer in load.answers}
        return [
            step
            for step in self.served.steps
            if any(request_id.rsplit("-", 1)[0] in ids for request_id in step["request_ids"])
        ]


def request(
    prompt: str | list[int], output_tokens: int, at_s: float = 0.0, model: str = MODEL
) -> dict[str, Any]:
    """One of a load; its body is that of a completion."""
    body = {"model": model, "prompt": prompt, "max_tokens": output_tokens, "ignore_eos": True}
    return {"at_s": at_s, "body": body}


def prompt(tokens: int) -> list[int]:
    """Random ids, so that no two prompts begin alike."""
    return _random.choices(range(1_000, 100_000), k=tokens)


def text(foxes: int) -> str:
    """Of ten tokens for each fox."""
    return " The quick brown fox jumps over the lazy dog." * foxes


LOADS: dict[str, list[dict[str, Any]]] = {
    "refused": [
        request(prompt(10), output_tokens=0),
        request(prompt(MAX_MODEL_TOKENS + 1), output_tokens=1, at_s=1),
        request(prompt(10), output_tokens=3, at_s=2),
    ],
    "long_texts": [
        request(f"{number}{text(foxes=4_600)}", output_tokens=2, at_s=0.5 * number)
        for number in range(5)
    ],
    "closed_loop": [
        request(prompt(_random.randint(700, 1_200)), _random.randint(100, 300)) for _ in range(600)
    ],
    "growing": [request(prompt(20), output_tokens=600) for _ in range(CONCURRENCY)],
    "abandoned": [request(prompt(20), output_tokens=2_000) for _ in range(16)],
}


def client(
    folder: Path,
    port: int,
    name: str,
    load: Sequence[dict[str, Any]],
    *,
    python: Path | None = None,
) -> list[str]:
    """The command that sends a load, with at most 256 requests under way, and writes NAME.json.

    ``python``: of an environment with aiohttp; without, vLLM's.
    """
    plan = folder / f"{name}-plan.json"
    plan.write_text(json.dumps({"requests": load, "max_concurrency": CONCURRENCY}))
    program = [str(python or vllm_bin() / "python"), str(CLIENTS / "load.py")]
    return [*program, f"http://127.0.0.1:{port}", str(plan), str(folder / f"{name}.json")]


def killing(port: int, victim: str, command: Sequence[str]) -> list[str]:
    """A client under whose load the ``victim`` is killed (``tests/clients/kill_under_load.py``)."""
    program = [command[0], str(CLIENTS / "kill_under_load.py")]
    return [*program, f"http://127.0.0.1:{port}", victim, *command]


def bench(folder: Path, port: int) -> list[str]:
    """vLLM's own client, with two prompts of five too long; its results go to bench.json."""
    prompts = folder / "prompts.jsonl"
    lines = [{"prompt": f"{n}{text(foxes)}"} for n, foxes in enumerate((1, 7_000, 2, 7_000, 3))]
    prompts.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return [
        str(vllm_bin() / "vllm"), "bench", "serve", "--model", MODEL, "--port", str(port),
        "--dataset-name", "custom", "--dataset-path", str(prompts), "--custom-output-len", "4",
        "--skip-chat-template", "--disable-shuffle", "--num-prompts", str(len(lines)),
        "--request-rate", "2", "--ignore-eos",
        "--save-result", "--save-detailed",
        "--result-dir", str(folder), "--result-filename", "bench.json",
    ]  # fmt: skip


def under_pressure(folder: Path) -> Pressure:
    """Runs the session; all files go to ``folder``."""
    port = free_port()

    names = ("refused", "long_texts", "closed_loop", "growing")
    clients = {name: client(folder, port, name, LOADS[name]) for name in names}
    clients["bench"] = bench(folder, port)
    for name, victim in (("killed_client", "client"), ("killed_core", str(folder / "steps"))):
        abandoned = client(folder, port, name, LOADS["abandoned"])
        clients[name] = killing(port, victim, abandoned)
    flags = (
        "--num-gpu-blocks-override", str(KV_BLOCKS),
        "--max-model-len", str(MAX_MODEL_TOKENS),
    )  # fmt: skip
    return Pressure(serve(folder, clients, port=port, flags=flags, predictor="constant:20ms"))

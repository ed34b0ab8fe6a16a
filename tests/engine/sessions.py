"""The real vLLM as a user starts it: any command under `warpserve run`, on a virtual GPU."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.harness import CLIENTS, Outcome, Warpserve
from warpserve.patches.engines import EngineRequirement, EngineStore

ENGINE_VARIABLE = "WARPSERVE_TEST_ENGINE"
ENGINE = EngineRequirement.parse(os.environ.get(ENGINE_VARIABLE, "vllm==0.24.0"))
"""What is under test: `make matrix` says other versions."""
MODEL = "meta-llama/Llama-3.1-8B-Instruct"
TEXT_WAIT_S = 0.002 if ENGINE.version == "0.19.0" else 0.0
"""How long that vLLM waits for other texts to tokenize together with one."""
LIMIT_S = 1_200.0
"""Of host time, for a session with an engine: it starts up in half a minute on two idle cores."""


def vllm_bin() -> Path:
    """The folder of the engine's programs; without an engine a test that needs one fails."""
    return EngineStore().get(ENGINE).python.parent


@contextmanager
def sessions() -> Iterator[Warpserve]:
    """As the fixture ``warpserve``, for whoever shares one session among several tests."""
    runner = Warpserve()
    try:
        yield runner
        left = runner.leftovers()
    finally:
        runner.close()
    assert left == []


def on_gpu(step_log: Path, *, gpu: str = "h100-sxm", predictor: str) -> tuple[str, ...]:
    """The options of `warpserve run`."""
    return ("--gpu", gpu, "--predictor", predictor, "--step-log", str(step_log))


def read_steps(folder: Path) -> list[dict[str, Any]]:
    """The lines of a step log, of all its workers, in the order of their ends."""
    lines = [json.loads(line) for file in folder.iterdir() for line in file.open()]
    return sorted(lines, key=lambda step: int(step["end_ns"]))


@dataclass(frozen=True)
class Served:
    """A session that has ended, in which clients called a server one after the other."""

    folder: Path
    outcome: Outcome
    exit_codes: dict[str, int]
    """Of the clients and the ``server``, by name; none where it never served."""

    def log(self, name: str) -> str:
        """What a client printed, or the ``server``."""
        return (self.folder / f"{name}.log").read_text(errors="replace")

    @property
    def steps(self) -> list[dict[str, Any]]:
        return read_steps(self.folder / "steps")


def serve(
    folder: Path,
    clients: Mapping[str, Sequence[str]],
    *,
    port: int,
    flags: Sequence[str] = (),
    model: str = MODEL,
    gpu: str = "h100-sxm",
    predictor: str = "constant:20ms",
) -> Served:
    """`vllm serve MODEL FLAGS` and then the clients, in one session; all files go to ``folder``."""
    server = [
        str(vllm_bin() / "vllm"), "serve", model,
        "--host", "127.0.0.1", "--port", str(port), *flags,
    ]  # fmt: skip
    return serve_with(folder, server, clients, port=port, gpu=gpu, predictor=predictor)


def serve_with(
    folder: Path,
    server: Sequence[str],
    clients: Mapping[str, Sequence[str]],
    *,
    port: int,
    gpu: str = "h100-sxm",
    predictor: str = "constant:20ms",
) -> Served:
    """The same with a server of any engine, by the absolute path of its program."""
    plan = folder / "plan.json"
    plan.write_text(
        json.dumps(
            {
                "server": list(server),
                "ready": f"http://127.0.0.1:{port}/health",
                "clients": {name: list(command) for name, command in clients.items()},
                "logs": str(folder),
            }
        )
    )
    with sessions() as warpserve:
        outcome = warpserve.run(
            [Path(server[0]).with_name("python"), CLIENTS / "served.py", plan],
            options=on_gpu(folder / "steps", gpu=gpu, predictor=predictor),
            cwd=folder,
            limit_s=LIMIT_S,
        )
    exit_codes = json.loads(outcome.stdout) if outcome.exit_code == 0 else {}
    return Served(folder, outcome, exit_codes)

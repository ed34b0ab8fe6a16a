"""The emulated twin of a real run: the experiment that its metadata describe.

What the run does not say is asked for, or left to the engine and listed; nothing is assumed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from warpserve.bench.config import DRAFTING_FLAGS, RunConfig
from warpserve.bench.real.schema import Deployment, Request, Run
from warpserve.bench.twin_flags import engine_flags
from warpserve.bench.twin_gpu import gpu_of, guessed_peers
from warpserve.errors import WarpserveError


class TwinError(WarpserveError):
    """The run does not say what its twin needs; the message names the option that does."""


@dataclass(frozen=True)
class Twin:
    """An experiment, what it sends, and what is known to be otherwise than in the real run."""

    config: RunConfig
    requests: tuple[Request, ...]
    notes: tuple[str, ...]


def twin_of(real: Run, arrivals: Path, *, flags: Sequence[str] = (), **said: Any) -> Twin:
    """``arrivals``: the file that `write_arrivals` is to fill. ``said``: fields of RunConfig that
    go before what the run says, where not None; ``flags``: of the engine, after the run's own.

    Raises TwinError, and ConfigError where what was said is wrong.
    """
    notes: list[str] = []
    requests = _sendable(real, notes)
    given = {name: value for name, value in said.items() if value is not None}
    values: dict[str, Any] = {
        "engine": _engine(real.deployment, given, notes),
        "model": _known(given, "model", real.deployment.model),
        "gpu": _known(given, "gpu", gpu_of(real.deployment)),
        "workload": str(arrivals),
        "num_requests": len(requests),
        "kv_tokens": real.deployment.kv_tokens,
        "temperature": real.workload.temperature,
        "engine_flags": (*engine_flags(real.deployment), *flags),
        **_load(real, notes),
    }
    config = RunConfig.of(**values | given)
    if config.acceptance is None and config.flag(*DRAFTING_FLAGS) is not None:
        raise TwinError(
            "the run's engine drafted tokens, and no file says how many were accepted: say "
            "--acceptance, with a rate for each position"
        )
    if real.deployment.peers is None and (guess := guessed_peers(config.gpu)) is not None:
        notes.append(guess)
    return Twin(config, requests, tuple(notes))


def write_arrivals(path: Path, requests: Sequence[Request]) -> None:
    """As a workload that ``--arrival trace`` takes: when, and how many tokens each way."""
    lines = ["arrival_time_ns,input_toks,output_toks"]
    lines += [
        f"{round((request.arrival_s or 0.0) * 1e9)},{request.input_tokens},{request.output_tokens}"
        for request in requests
    ]
    path.write_text("\n".join(lines) + "\n")


def _sendable(real: Run, notes: list[str]) -> tuple[Request, ...]:
    """In the order of sending: those whose lengths are known."""
    if not real.requests:
        raise TwinError("the run has no requests, only figures: save it with details")
    found = [r for r in real.completed if r.input_tokens and r.output_tokens]
    if len(found) < len(real.completed):
        missing = len(real.completed) - len(found)
        raise TwinError(f"{missing} of its requests do not say how long they were")
    if len(found) < len(real.requests):
        left_out = len(real.requests) - len(found)
        notes.append(f"{left_out} requests that failed are left out: how long is not known")
    notes.append("Prompts are random tokens: prefixes that real ones shared are not.")
    return tuple(sorted(found, key=lambda request: request.arrival_s or 0.0))


def _engine(deployment: Deployment, given: dict[str, Any], notes: list[str]) -> str:
    _check_one_server(deployment)
    engine = given.get("engine")
    if engine is None:
        if deployment.engine is None or deployment.engine_version is None:
            raise TwinError(
                "the run does not say its engine and version: say "
                f"--engine {deployment.engine or 'vllm'}==…"
            )
        return f"{deployment.engine}=={deployment.engine_version}"
    name, _, version = str(engine).partition("==")
    if deployment.engine not in (None, name):
        raise TwinError(
            f"the run is one of {deployment.engine}, whose flags {name} does not know: say "
            f"--engine {deployment.engine}==…"
        )
    if deployment.engine_version not in (None, version):
        notes.append(f"The engine is {engine}, the real one was {deployment.engine_version}.")
    return str(engine)


def _check_one_server(deployment: Deployment) -> None:
    """What SGLang says of a part that alone makes no run."""
    part = deployment.arguments.get("disaggregation_mode")
    if deployment.engine == "sglang" and part not in (None, "null"):
        raise TwinError(
            f"the run's server was only the {part} part of one: start its twin by "
            "docs/examples/prefill_decode.py, and compare"
        )


def _known(given: dict[str, Any], name: str, value: str | None) -> str:
    if name in given:
        return str(given[name])
    if value is None:
        raise TwinError(f"the run does not say its {name}: say --{name}")
    return value


def _load(real: Run, notes: list[str]) -> dict[str, Any]:
    """When requests are sent: as recorded, unless that was the answer to the server's times."""
    workload = real.workload
    if workload.max_concurrency is not None:
        rate = workload.rate or math.inf
        if math.isfinite(rate):
            notes.append("Sending times are drawn at the same rate, under the same concurrency.")
        return {"max_concurrency": workload.max_concurrency, "rate": rate}
    if all(request.arrival_s is not None for request in real.requests):
        return {"arrival": "trace"}
    if workload.rate is None:
        raise TwinError("the run says neither when requests were sent nor at which rate")
    notes.append("Sending times are drawn at the same rate: the real ones are not known.")
    if workload.arrivals == "gamma" and workload.burstiness is not None:
        return {"arrival": f"gamma:{workload.burstiness}", "rate": workload.rate}
    return {"arrival": "poisson", "rate": workload.rate}

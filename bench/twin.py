"""The emulated twin of a real run: the experiment that its metadata describe.

What the run does not say is asked for, or left to the engine and listed; nothing is assumed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from warpserve.bench.config import DRAFTING_FLAGS, RunConfig
from warpserve.bench.real.notation import UNREAD
from warpserve.bench.real.schema import Deployment, Request, Run, Sample, Step, Workload
from warpserve.bench.twin_flags import engine_flags
from warpserve.bench.twin_gpu import gpu_of, guessed_peers
from warpserve.errors import WarpserveError

_Timed = TypeVar("_Timed", Request, Sample, Step)


class TwinError(WarpserveError):
    """The run does not say what its twin needs; the message names the option that does."""


@dataclass(frozen=True)
class Twin:
    """An experiment, what it sends, and what is known to be otherwise than in the real run."""

    config: RunConfig
    sent: Run
    """The real run, of the requests that are sent again; instants count from the first of them."""
    notes: tuple[str, ...]

    @property
    def requests(self) -> tuple[Request, ...]:
        return self.sent.requests


def twin_of(real: Run, arrivals: Path, *, flags: Sequence[str] = (), **said: Any) -> Twin:
    """``arrivals``: the file that `write_arrivals` is to fill. ``said``: fields of RunConfig that
    go before what the run says, where not None; ``flags``: of the engine, after the run's own.

    Raises TwinError, and ConfigError where what was said is wrong.
    """
    notes: list[str] = []
    _check_arguments(real)
    sent = _from_first(real.model_copy(update={"requests": _sendable(real, notes)}))
    given = {name: value for name, value in said.items() if value is not None}
    values: dict[str, Any] = {
        "engine": _engine(real.deployment, given, notes),
        "model": _known(given, "model", real.deployment.model),
        "gpu": _known(given, "gpu", gpu_of(real.deployment)),
        "workload": str(arrivals),
        "num_requests": len(sent.requests),
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
    return Twin(config, sent, tuple(notes))


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
    completed = real.completed
    missing = sum(r.input_tokens is None or r.output_tokens is None for r in completed)
    if missing:
        raise TwinError(f"{missing} of its requests do not say how long they were")
    found = [r for r in completed if r.input_tokens and r.output_tokens]
    if not found:
        raise TwinError("none of its requests was answered: there is nothing to send again")
    if failed := len(real.requests) - len(completed):
        notes.append(f"{failed} requests that failed are left out: how long is not known")
    if empty := len(completed) - len(found):
        notes.append(f"{empty} requests without a token, asked or answered, are left out.")
    notes.append("Prompts are random tokens: prefixes that real ones shared are not.")
    return tuple(sorted(found, key=lambda request: request.arrival_s or 0.0))


def _from_first(run: Run) -> Run:
    """With instants that count from its first sending, as those of its twin will."""
    arrivals_s = [r.arrival_s for r in run.requests if r.arrival_s is not None]
    origin_s = min(arrivals_s, default=0.0)

    def counted(part: _Timed, *names: str) -> _Timed:
        instants_s = {name: getattr(part, name) for name in names}
        known = {name: at_s - origin_s for name, at_s in instants_s.items() if at_s is not None}
        return part.model_copy(update=known)

    return run.model_copy(
        update={
            "requests": tuple(
                counted(r, "arrival_s", "queued_s", "scheduled_s") for r in run.requests
            ),
            "series": tuple(counted(sample, "time_s") for sample in run.series),
            "steps": tuple(counted(step, "start_s", "end_s") for step in run.steps),
        }
    )


def _check_arguments(real: Run) -> None:
    unread = [warning for warning in real.warnings if warning.startswith(UNREAD)]
    if unread:
        raise TwinError(
            f"{'; '.join(unread)}: a twin would be started without them. Leave the log out, and "
            "say what it says: --engine, --set deployment.…, and flags after --"
        )


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
        return {"max_concurrency": workload.max_concurrency, **_drawn(workload, rate)}
    if all(request.arrival_s is not None for request in real.requests):
        return {"arrival": "trace"}
    if workload.rate is None:
        raise TwinError("the run says neither when requests were sent nor at which rate")
    notes.append("Sending times are drawn at the same rate: the real ones are not known.")
    return _drawn(workload, workload.rate)


def _drawn(workload: Workload, rate: float) -> dict[str, Any]:
    """From the same process, or from Poisson's where it is none that is drawn here."""
    if workload.arrivals == "gamma" and workload.burstiness is not None:
        return {"arrival": f"gamma:{workload.burstiness}", "rate": rate}
    return {"arrival": "constant" if workload.arrivals == "constant" else "poisson", "rate": rate}

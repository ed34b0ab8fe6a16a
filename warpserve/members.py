"""What members are given beside the clock: GPUs, models, and how long an engine's steps take."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from warpserve.bench.models import hub_folder
from warpserve.cuda_shim.launch import gpu_environment, prepare_torch
from warpserve.errors import SessionError
from warpserve.patches.ghosts import SESSION_GHOSTS
from warpserve.patches.speculation import ACCEPTANCE, Acceptance, AcceptanceError
from warpserve.patches.step_log import FOLDER
from warpserve.predictors.aiconfigurator.client import python_environment
from warpserve.predictors.from_catalogue import hardware_of
from warpserve.predictors.hardware import hardware_environment
from warpserve.predictors.predictor import PredictorError
from warpserve.predictors.spec import SESSION_PREDICTOR, SESSION_STRICT, check_spec

_VLLM_SOCKET = str(UUID(int=0))
_LONGEST_SOCKET_PATH = 107
"""Of Linux: sun_path, and a zero behind it."""


@dataclass(frozen=True)
class MemberOptions:
    """What members are given beside the clock."""

    gpu: str | None = None
    predictor: str | None = None
    strict: bool = False
    step_log: Path | None = None
    acceptance: str | None = None
    ghost_ranks: bool = True


def prepare_members(asked: MemberOptions, command: Sequence[str]) -> None:
    """Checks what was asked for, and does what takes a minute the first time.

    To be called before the session begins. Raises WarpserveError where it can't be done.
    """
    if asked.predictor is None:
        _refuse_what_needs_a_predictor(asked)
    else:
        if asked.gpu is None:
            raise SessionError(
                "--predictor is about GPUs: say which with --gpu, such as h100-sxm:2"
            )
        _check_predictor(asked.predictor, asked.gpu)
    if asked.acceptance is not None:
        _check_acceptance(asked.acceptance)
    if asked.gpu is not None:
        prepare_torch(command, os.environ)


def member_environment(
    asked: MemberOptions, folder: Path, command: Sequence[str]
) -> dict[str, str]:
    """The environment of a session's members. ``folder``: the session's own.

    Raises WarpserveError where something that was asked for does not exist.
    """
    env = dict(os.environ)
    if asked.gpu is not None:
        env = gpu_environment(asked.gpu, folder, command, env)
        env |= hardware_environment(hardware_of(asked.gpu))
        # vLLM reports to its makers on which GPUs it runs, and again each ten minutes of its clock.
        env["VLLM_NO_USAGE_STATS"] = "1"
    if asked.predictor is not None:
        env[SESSION_PREDICTOR] = asked.predictor
        env[SESSION_STRICT] = "1" if asked.strict else ""
        env |= python_environment()
        env |= hub_folder(folder / "hub", env)
        if len(str(folder / _VLLM_SOCKET)) <= _LONGEST_SOCKET_PATH:
            # vLLM leaves its sockets behind; the session's folder goes with them.
            env.setdefault("VLLM_RPC_BASE_PATH", str(folder))
    if asked.acceptance is not None:
        env[ACCEPTANCE] = asked.acceptance
    if not asked.ghost_ranks:
        env[SESSION_GHOSTS] = "0"
    if asked.step_log is not None:
        asked.step_log.mkdir(parents=True, exist_ok=True)
        if any(asked.step_log.glob("*.jsonl")):
            print(
                f"warpserve: {asked.step_log} has steps of another run already, which count as of "
                "this one's: name another folder with --step-log",
                file=sys.stderr,
            )
        env[FOLDER] = str(asked.step_log.absolute())
    return env


def _refuse_what_needs_a_predictor(asked: MemberOptions) -> None:
    said = {
        "--strict": asked.strict,
        "--step-log": asked.step_log is not None,
        "--acceptance": asked.acceptance is not None,
        "--no-ghost-ranks": not asked.ghost_ranks,
    }
    for option, is_said in said.items():
        if is_said:
            raise SessionError(f"{option} is about predicted steps: say --predictor, too")


def _check_acceptance(rates: str) -> None:
    try:
        Acceptance.parse(rates)
    except AcceptanceError as error:
        raise SessionError(f"--acceptance: {error}") from None


def _check_predictor(spec: str, gpu: str) -> None:
    try:
        check_spec(spec, hardware_of(gpu))
    except PredictorError as error:
        raise SessionError(f"--predictor {spec}: {error}") from None

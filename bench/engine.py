"""An engine's server as a member of a session of its own."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from warpserve.bench import servers
from warpserve.bench.config import EngineConfig
from warpserve.bench.models import model_named
from warpserve.bench.run_folder import RunError
from warpserve.cuda_shim.catalogue import machine
from warpserve.members import MemberOptions, member_environment, prepare_members
from warpserve.patches.engines import EngineRequirement, EngineStore
from warpserve.timekeeper.control import Exited
from warpserve.timekeeper.launcher import RunningSession
from warpserve.timekeeper.options import SessionOptions

_PREDICTOR_ERROR = re.compile(r"\bPredictorError: (.+)")
_ERROR = re.compile(r"(?:^|[ .])((?:\w+(?:Error|Exception)|error): .+)", re.MULTILINE)
"""As Python ends a traceback, and argparse a command."""
_ELSEWHERE = re.compile(r"root cause|initialization failed|See stack trace|died")
_REASON_LENGTH = 300
_READY = re.compile(r"Application startup complete|The server is fired up")
"""As uvicorn says it, and SGLang."""
_STOP_LIMIT_S = 60.0  # of host time, for an engine to end in order
_HIGHEST_PORT = 55_535  # SGLang 0.5.14 wants 10,000 more to be a port, too
_POLITE = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE)  # asks a process to end


class EngineEnded(RunError):
    """A server ended that nobody had asked to."""


class EngineLaunch:
    """All that is known before an engine starts.

    Raises WarpserveError where its description asks for what is not there.
    """

    def __init__(self, config: EngineConfig, port: int | None = None) -> None:
        """``port``: any free one where None."""
        self._config = config
        self.python = _python_of(config)
        """Of the engine's environment."""
        self.model = model_named(config.model)
        self.port = port or _free_port()
        self.command = servers.server_command(
            config,
            python=self.python,
            model=self.model.reference,
            port=self.port,
            gpus=len(machine(config.gpu).devices),
        )
        prepare_members(self._asked(None), self.command)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @contextlib.contextmanager
    def started(
        self, log: Path | None, steps: Path | None = None, more_env: Mapping[str, str] | None = None
    ) -> Iterator[RunningEngine]:
        """A server, and the session that ends with the context.

        ``log``: the file for what it prints, None: where we print; ``steps``: the folder for its
        step log, if there is to be one; ``more_env``: for the server alone.
        """
        with RunningSession(SessionOptions(clock=self._config.clock)) as session:
            env = member_environment(self._asked(steps), session.folder, self.command)
            pid = _spawn(
                session, self.command, {**env, **(more_env or {}), **self._config.engine_env}, log
            )
            yield RunningEngine(session, env, pid, log, steps)

    def _asked(self, steps: Path | None) -> MemberOptions:
        return MemberOptions(
            gpu=self._config.gpu,
            predictor=self._config.predictor,
            strict=self._config.strict,
            acceptance=self._config.acceptance,
            ghost_ranks=self._config.ghost_ranks,
            step_log=steps,
        )


@dataclass(frozen=True)
class RunningEngine:
    """A server that runs, or starts up, and the session that it is a member of."""

    session: RunningSession
    env: Mapping[str, str]
    """Of its session's members."""
    pid: int
    log: Path | None
    steps: Path | None = None

    def spawn(self, command: Sequence[str], log: Path) -> int:
        """Another member, such as a client; its pid."""
        return _spawn(self.session, command, self.env, log)

    def wait(self, limit_s: float | None) -> Exited | None:
        """The next end of another member within ``limit_s`` of host time; None where there is none.

        Raises EngineEnded where the engine ends before it.
        """
        exited = self.session.wait_exited(limit_s)
        if exited is not None and exited.pid == self.pid:
            raise EngineEnded(self._ended_with(exited.exit_code))
        return exited

    def _ended_with(self, exit_code: int) -> str:
        code = f"(exit code {exit_code}){self.killed()}"
        if self.log is None:
            return f"the engine ended {code}"
        text = self.log.read_text(errors="replace")
        has_begun = _READY.search(text) or has_steps(self.steps)
        when = "in mid-run" if has_begun else "before it was ready"
        return f"the engine ended {when} {code}{_reason(text, exit_code)}: see {self.log}"

    def killed(self) -> str:
        """Which other processes of the session a signal has ended so far, as part of a message."""
        named = [
            f"{member.name} (process {member.id}) was killed by signal {member.signal}"
            for member in self.session.state().killed
            if member.signal not in _POLITE and member.id != self.pid
        ]
        return "".join(f", {one}" for one in named)

    def stop(self) -> None:
        """Asks it to end, and waits for a minute at most."""
        self.session.terminate(self.pid)
        give_up_s = time.monotonic() + _STOP_LIMIT_S
        while (left_s := give_up_s - time.monotonic()) > 0:
            exited = self.session.wait_exited(left_s)
            if exited is None or exited.pid == self.pid:
                return


def has_steps(folder: Path | None) -> bool:
    """Whether the engine has logged one there."""
    return folder is not None and any(file.stat().st_size for file in folder.iterdir())


def _reason(log: str, exit_code: int) -> str:
    """What it ended with, after a colon: the error of a predictor, else the last one but for those
    that point at another one. Empty where the log has none, and for a process that was killed.
    """
    if found := _PREDICTOR_ERROR.search(log):
        return f": {found[1]}"
    if exit_code <= 0:
        return ""
    errors = [line.strip() for line in _ERROR.findall(log) if not _ELSEWHERE.search(line)]
    return f": {errors[-1][:_REASON_LENGTH]}" if errors else ""


def _python_of(config: EngineConfig) -> Path:
    if config.engine_python is not None:
        return config.engine_python
    return EngineStore().get(EngineRequirement.parse(config.engine)).python


def _spawn(
    session: RunningSession, command: Sequence[str], env: Mapping[str, str], log: Path | None
) -> int:
    with Path(os.devnull).open("rb") as nothing, contextlib.ExitStack() as files:
        outputs = (1, 2) if log is None else (files.enter_context(log.open("wb")).fileno(),) * 2
        return session.spawn(command, env=env, stdio=(nothing.fileno(), *outputs))


def _free_port() -> int:
    while True:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port: int = probe.getsockname()[1]
        if port <= _HIGHEST_PORT:
            return port

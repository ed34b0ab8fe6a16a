"""`warpserve run`: any command as a member of a session."""

from __future__ import annotations

import datetime
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

import typer
from pydantic import ValidationError

from warpserve.console import fail
from warpserve.errors import SessionEnded, WarpserveError
from warpserve.members import MemberOptions, member_environment, prepare_members
from warpserve.timekeeper.elf import is_static_program
from warpserve.timekeeper.launcher import RunningSession
from warpserve.timekeeper.options import Clock, Guard, OnStall, SessionOptions
from warpserve.timekeeper.report import summary_line
from warpserve.timekeeper.state import SessionState

_EXIT_TIMEKEEPER_DIED = 95
_EXIT_STALLED = 96
_EXIT_AUDIT = 98


def run(
    command: Annotated[list[str], typer.Argument(help="the command and its arguments, after --")],
    gpu: Annotated[
        str | None,
        typer.Option(help="GPUs that the command sees, such as h100-sxm:2 (see `warpserve gpus`)"),
    ] = None,
    predictor: Annotated[
        str | None,
        typer.Option(help="how long an engine's steps take, such as constant:10ms"),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="with --predictor: an extrapolated step is an error")
    ] = False,
    step_log: Annotated[
        Path | None, typer.Option(help="with --predictor: a folder for a line about each step")
    ] = None,
    acceptance: Annotated[
        str | None,
        typer.Option(
            help="with speculative decoding: the part of drafts that is accepted, "
            "by position, such as 0.8,0.6,0.4"
        ),
    ] = None,
    ghost_ranks: Annotated[
        bool,
        typer.Option(
            help="with --predictor: one worker process stands for a tensor-parallel group where "
            "that is safe"
        ),
    ] = True,
    clock: Annotated[
        Clock,
        typer.Option(
            help="exact: time stands still between jumps; live: "
            "host time counts too; sleep: no jumps"
        ),
    ] = Clock.EXACT,
    guard: Annotated[
        Guard,
        typer.Option(
            help="settle: advance when every thread sleeps; barrier: when every actor has a target"
        ),
    ] = Guard.SETTLE,
    start_time: Annotated[
        str | None,
        typer.Option(
            help="date at the start, ISO 8601 or 'now'; default: 2026-01-01 in exact, else now"
        ),
    ] = None,
    audit: Annotated[
        bool,
        typer.Option(
            "--audit", help="check at every advance that all sleep; exit code 98 on a violation"
        ),
    ] = False,
    trace: Annotated[
        Path | None, typer.Option(help="write a trace of all waits for Perfetto")
    ] = None,
    on_stall: Annotated[
        OnStall, typer.Option(help="what to do when nothing can happen any more")
    ] = OnStall.FAIL,
    stall_grace_ms: Annotated[
        int, typer.Option(help="host time for which nothing can happen before it counts as a stall")
    ] = 2_000,
    spin_limit: Annotated[
        int, typer.Option(help="clock reads in one instant that count as a busy-wait")
    ] = 100_000,
    listen: Annotated[
        str | None, typer.Option(help="let other hosts join at tcp://ADDRESS:PORT (encrypted)")
    ] = None,
    advertise: Annotated[
        str | None,
        typer.Option(help="with --listen: the host that others connect to, if ADDRESS is 0.0.0.0"),
    ] = None,
    summary: Annotated[
        Path | None, typer.Option(help="write the session's last state, JSON")
    ] = None,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="no summary line at the end")
    ] = False,
) -> None:
    """Run COMMAND as a member of a session: its clocks are virtual, its timed waits are jumps.

    Ends with the command's exit code; 95: the Timekeeper died; 96: the session stalled;
    97: a process could not join; 98: the audit found a violation.
    """
    options = _options(
        clock=clock,
        guard=guard,
        start_time=_start_time(start_time),
        audit=audit,
        trace=trace.absolute() if trace else None,
        on_stall=on_stall,
        stall_grace_ms=stall_grace_ms,
        spin_limit=spin_limit,
        listen=listen,
        advertise=advertise,
    )
    if is_static_program(command[0]):
        message = f"warpserve: {command[0]} is a static binary: its clock is not virtual"
        print(message, file=sys.stderr)
    try:
        asked = MemberOptions(
            gpu=gpu,
            predictor=predictor,
            strict=strict,
            step_log=step_log,
            acceptance=acceptance,
            ghost_ranks=ghost_ranks,
        )
        exit_code, state = _run(options, command, asked)
    except SessionEnded as error:
        fail(error, _EXIT_TIMEKEEPER_DIED)
    except WarpserveError as error:
        fail(error)
    if state is None:
        fail("the Timekeeper died; the session was ended", _EXIT_TIMEKEEPER_DIED)
    if summary is not None:
        _write_summary(summary, state)
    if not quiet:
        print(summary_line(state), file=sys.stderr)
    raise typer.Exit(_exit_code(exit_code, state))


def _run(
    options: SessionOptions, command: list[str], asked: MemberOptions
) -> tuple[int | None, SessionState | None]:
    """The command's exit code (None where the session ended before it) and the last state."""
    prepare_members(asked, command)
    with RunningSession(options) as session:
        env = _environment(session.folder, command, asked)
        _leave_terminal_signals_to(session)
        pid = session.spawn(command, env=env, ends_session=True)
        try:
            exit_code = session.wait(pid)
        except SessionEnded:
            exit_code = None
        return exit_code, session.end()


def _environment(
    folder: Path, command: Sequence[str], asked: MemberOptions
) -> Mapping[str, str] | None:
    return None if asked == MemberOptions() else member_environment(asked, folder, command)


def _write_summary(path: Path, state: SessionState) -> None:
    try:
        path.write_text(state.model_dump_json(by_alias=True, indent=2) + "\n")
    except OSError as error:
        fail(f"cannot write the summary: {error}")


def _leave_terminal_signals_to(session: RunningSession) -> None:
    """Ctrl-C reaches the members from the terminal; SIGTERM and a hang-up end the session."""

    def end(_number: int, _frame: FrameType | None) -> None:
        os.kill(session.timekeeper_pid, signal.SIGTERM)

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGQUIT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGHUP, end)


def _exit_code(exit_code: int | None, state: SessionState) -> int:
    if state.stalled:
        return _EXIT_STALLED
    if state.audit.violations:
        return _EXIT_AUDIT
    if exit_code is None:
        return 128 + signal.SIGTERM
    return exit_code if exit_code >= 0 else 128 - exit_code


def _start_time(text: str | None) -> datetime.datetime | None:
    if text is None:
        return None
    if text == "now":
        return datetime.datetime.now(datetime.UTC)
    try:
        moment = datetime.datetime.fromisoformat(text)
    except ValueError:
        fail(f"--start-time is 'now' or ISO 8601 (2026-01-31T12:00:00), not {text!r}")
    return moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)


def _options(**values: object) -> SessionOptions:
    try:
        return SessionOptions.model_validate(values)
    except ValidationError as error:
        fail("; ".join(_mistake(dict(e)) for e in error.errors()))


def _mistake(error: dict[str, Any]) -> str:
    """One mistake in the options, in the words of the command line."""
    name = str(error["loc"][0])
    what = error["msg"]
    if error["type"] == "string_pattern_mismatch":
        what = f"must be {SessionOptions.model_fields[name].description}, not {error['input']!r}"
    return f"--{name.replace('_', '-')}: {what}"

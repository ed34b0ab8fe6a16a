"""`warpserve status` and `warpserve doctor`."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer

from warpserve.console import console, fail
from warpserve.errors import ProtocolMismatch, SessionEnded, WarpserveError
from warpserve.timekeeper.doctor import Verdict, examine
from warpserve.timekeeper.launcher import list_sessions, session_state
from warpserve.timekeeper.report import print_findings, print_state


def status(
    session: Annotated[str | None, typer.Argument(help="the session's name; default: all")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="one JSON object a session")] = False,
) -> None:
    """Show running sessions: the time, the members, who waits for what, what keeps time still."""
    try:
        running = list_sessions()
    except (WarpserveError, OSError) as error:
        fail(error)
    folders = [f for f in running if session in (None, f.name)]
    if session is not None and not folders:
        fail(f"no session {session}; running: {[f.name for f in running]}")
    if not folders and not as_json:
        console().print("no session is running")
    for folder in folders:
        try:
            state = session_state(folder)
        except SessionEnded:
            continue
        except ProtocolMismatch as error:
            print(f"{folder.name}: {error}", file=sys.stderr)
            continue
        if as_json:
            print(state.model_dump_json(by_alias=True))
        else:
            print_state(console(), folder.name, state)


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="a JSON list of findings")] = False,
) -> None:
    """Say what this machine can and cannot do, with the remedy. Exit code 1 where sessions fail."""
    findings = examine()
    if as_json:
        print(json.dumps([finding.model_dump() for finding in findings], indent=2))
    else:
        print_findings(console(), findings)
    if any(finding.verdict is Verdict.BROKEN for finding in findings):
        raise typer.Exit(1)

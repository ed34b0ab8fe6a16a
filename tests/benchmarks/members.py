"""A command of an engine as the only member of a session."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from warpserve.bench.host_cost import HostMeter
from warpserve.members import MemberOptions, member_environment, prepare_members
from warpserve.timekeeper.launcher import RunningSession
from warpserve.timekeeper.options import Clock, SessionOptions


@contextmanager
def running_member(
    command: Sequence[str],
    asked: MemberOptions,
    clock: Clock,
    log: Path,
    env: Mapping[str, str] | None = None,
) -> Iterator[tuple[RunningSession, int, HostMeter]]:
    """The session, the command's pid, and what all of it costs. ``env``: more of it."""
    prepare_members(asked, command)
    with (
        RunningSession(SessionOptions(clock=clock)) as session,
        log.open("wb") as printed,
        Path(os.devnull).open("rb") as nothing,
    ):
        stdio = (nothing.fileno(), printed.fileno(), printed.fileno())
        environment = {**member_environment(asked, session.folder, command), **(env or {})}
        pid = session.spawn(command, env=environment, stdio=stdio)
        yield session, pid, HostMeter(session.timekeeper_pid)

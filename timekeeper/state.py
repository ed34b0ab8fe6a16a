"""The state of a session, as the Timekeeper tells it (schema 1)."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class BusyThread(_Strict):
    """A thread that keeps *settle* from holding, and why."""

    pid: int
    tid: int
    name: str
    why: str


class Thread(_Strict):
    """A thread of a process of the session: its state letter, and the kernel function it is in."""

    tid: int
    name: str
    state: str
    inside: str = Field(alias="in")


class Member(_Strict):
    """A process of the session, or a remote member."""

    id: int
    name: str
    virtual_clock: bool
    remote: bool
    threads: list[Thread]


class Waiting(_Strict):
    """A thread that waits for an instant."""

    pid: int
    tid: int
    wait: str = Field(alias="in")
    target_ns: int


class Killed(_Strict):
    """A member that a signal has killed, and when."""

    id: int
    name: str
    signal: int
    virtual_ns: int


class Audit(_Strict):
    """What the audit mode found (invariant T5)."""

    advances_checked: int
    violations: int
    first_violations: list[str]


class SessionState(_Strict):
    """All that `warpserve status` shows."""

    schema_version: Literal[1] = Field(alias="schema")
    clock: str
    guard: str
    virtual_ns: int
    host_ns: int
    advances: int
    looks: int
    advances_per_s: int
    blocked_by: str
    busy: BusyThread | None
    members: list[Member]
    waiting: list[Waiting]
    killed: list[Killed]
    holders: list[str]
    warnings: dict[str, int]
    audit: Audit
    trace_failure: str
    ended_because: str
    stalled: bool
    ended_members: int

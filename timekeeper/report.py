"""A session's state, and a doctor's findings, for people."""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from warpserve.timekeeper.doctor import Finding, Verdict
from warpserve.timekeeper.state import SessionState

_VERDICT_STYLES = {Verdict.OK: "green", Verdict.LIMITED: "yellow", Verdict.BROKEN: "bold red"}

_WARNINGS = {
    "busy_wait": "busy-wait(s) were charged virtual time: a thread polled the clock",
    "unvirtualised_wait": "timed wait(s) ran on host time",
    "socket_timeout": "socket time-out(s) run on host time",
    "io_uring": "use(s) of io_uring were refused",
    "static_binary": "static program(s) ran on the host's clock",
}


def seconds(ns: int) -> str:
    """Nanoseconds as seconds, exactly."""
    whole, fraction = divmod(ns, 1_000_000_000)
    return f"{whole:,}.{fraction:09d} s"


def summary_line(state: SessionState) -> str:
    """One line, and one more a kind of warning."""
    virtual_s, host_s = state.virtual_ns / 1e9, state.host_ns / 1e9
    speed_up = virtual_s / host_s if host_s else 0.0
    lines = [
        f"warpserve: {virtual_s:,.3f} s of virtual time in {host_s:,.3f} s ({speed_up:,.1f}x), "
        f"{state.advances:,} advances"
    ]
    lines += warning_lines(state)
    if state.audit.advances_checked:
        lines.append(
            f"warpserve: audit of {state.audit.advances_checked:,} advances: "
            f"{state.audit.violations:,} violations"
        )
        lines += [f"  {text}" for text in state.audit.first_violations]
    return "\n".join(lines)


def warnings_in_words(counts: Mapping[str, int]) -> list[str]:
    """Of those that were counted."""
    return [
        f"{count:,} {_WARNINGS[kind]} (docs/limitations.md)"
        for kind, count in counts.items()
        if count
    ]


def warning_lines(state: SessionState) -> list[str]:
    """A line for each kind of warning that was counted."""
    lines = [f"warpserve: warning: {text}" for text in warnings_in_words(state.warnings)]
    if state.trace_failure:
        lines.append(f"warpserve: warning: {state.trace_failure}")
    if state.ended_members:
        lines.append(f"warpserve: ended {state.ended_members} process(es) that were still running")
    return lines


def print_state(console: Console, name: str, state: SessionState) -> None:
    """What `warpserve status` shows."""
    console.print(
        f"[bold]session {name}[/bold]  {state.clock}, {state.guard}  "
        f"time [bold]{seconds(state.virtual_ns)}[/bold]  host {seconds(state.host_ns)}"
    )
    console.print(f"{state.advances:,} advances, {state.advances_per_s:,} a second at present")
    if state.busy is not None:
        busy = state.busy
        console.print(
            f"time stands still: thread {busy.tid} of process {busy.pid} ({escape(busy.name)}): "
            f"{escape(busy.why)}"
        )
    elif state.blocked_by != "nothing":
        console.print(f"time stands still: {state.blocked_by}")
    console.print(_members(state))
    console.print(_waiting(state))
    for holder in state.holders:
        console.print(f"{escape(holder)} holds the time")
    for line in warning_lines(state):
        console.print(escape(line))


def print_findings(console: Console, findings: list[Finding]) -> None:
    """What `warpserve doctor` shows."""
    table = Table("", "verdict", "finding", "remedy")
    for finding in findings:
        verdict = f"[{_VERDICT_STYLES[finding.verdict]}]{finding.verdict}"
        table.add_row(finding.what, verdict, escape(finding.detail), escape(finding.remedy))
    console.print(table)


def _members(state: SessionState) -> Table:
    table = Table("process", "name", "clock", title="members", title_justify="left")
    for member in state.members:
        clock = "virtual" if member.virtual_clock else "host"
        place = f"remote {member.id}" if member.remote else str(member.id)
        table.add_row(place, escape(member.name), clock)
    return table


def _waiting(state: SessionState) -> Table:
    table = Table(
        "process", "thread", "waits in", "until", "for", title="waiting", title_justify="left"
    )
    for wait in sorted(state.waiting, key=lambda w: (w.target_ns, w.tid)):
        remaining = max(0, wait.target_ns - state.virtual_ns)
        table.add_row(
            str(wait.pid),
            str(wait.tid),
            escape(wait.wait),
            seconds(wait.target_ns),
            seconds(remaining),
        )
    return table

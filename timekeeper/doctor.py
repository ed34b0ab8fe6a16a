"""`warpserve doctor`: what this machine can and cannot do, with the remedy."""

from __future__ import annotations

import ctypes
import enum
import errno
import os
import platform
import shutil
from collections.abc import Callable
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from warpserve.errors import WarpserveError
from warpserve.timekeeper import native
from warpserve.timekeeper.launcher import list_sessions, session_state, sessions_folder

_SYS_FUTEX_WAITV = 449  # x86-64


class Verdict(enum.StrEnum):
    """What a finding means for the user."""

    OK = "ok"
    LIMITED = "limited"  # works, with what the detail says
    BROKEN = "broken"  # sessions cannot run


class Finding(BaseModel):
    """One thing looked at; `remedy` is empty where none is needed."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    what: str
    verdict: Verdict
    detail: str
    remedy: str = ""


def examine() -> list[Finding]:
    """All findings, in the order in which they matter."""
    checks: list[Callable[[], Finding]] = [
        _platform,
        _futex_waitv,
        _thread_states,
        _soft_interrupts,
        _native_parts,
        _zeromq,
        _sessions_folder,
        _stale_sessions,
        _compiler,
        _cores,
    ]
    return [check() for check in checks]


def _platform() -> Finding:
    name = f"{platform.system()} {platform.machine()}, kernel {platform.release()}"
    fits = platform.system() == "Linux" and platform.machine() == "x86_64"
    if fits:
        return Finding(what="platform", verdict=Verdict.OK, detail=name)
    return Finding(
        what="platform",
        verdict=Verdict.BROKEN,
        detail=name,
        remedy="use Linux on x86-64, in a virtual machine or a container for example",
    )


def _futex_waitv() -> Finding:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall(_SYS_FUTEX_WAITV, 0, 0, 0, 0, 0)
    # A kernel that knows the call finds fault with the arguments.
    if ctypes.get_errno() == errno.EINVAL:
        return Finding(what="futex_waitv", verdict=Verdict.OK, detail="known to the kernel")
    return Finding(
        what="futex_waitv",
        verdict=Verdict.BROKEN,
        detail=os.strerror(ctypes.get_errno()),
        remedy="use a kernel from 5.16 on, or allow the call in the container's seccomp profile",
    )


def _thread_states() -> Finding:
    task = Path("/proc/self/task") / str(os.getpid())
    files = ("stat", "schedstat", "wchan", "syscall")
    missing = [name for name in files if not (task / name).exists()]
    if missing:
        return Finding(
            what="thread states",
            verdict=Verdict.BROKEN,
            detail=f"/proc/PID/task/TID/{missing[0]} is missing",
            remedy="mount /proc, with a kernel that has CONFIG_SCHED_INFO, CONFIG_KALLSYMS and "
            "CONFIG_HAVE_ARCH_TRACEHOOK",
        )
    return Finding(what="thread states", verdict=Verdict.OK, detail="readable in /proc")


def _soft_interrupts() -> Finding:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and _name_of(entry).startswith("ksoftirqd/"):
            return Finding(
                what="soft interrupts", verdict=Verdict.OK, detail="ksoftirqd is watched"
            )
    return Finding(
        what="soft interrupts",
        verdict=Verdict.LIMITED,
        detail="ksoftirqd is out of sight: on a loaded machine data on loopback may be late",
        remedy="run outside of a pid namespace (docker run --pid=host)",
    )


def _name_of(proc: Path) -> str:
    try:
        return (proc / "comm").read_text(errors="replace")
    except OSError:
        return ""


def _native_parts() -> Finding:
    try:
        native.timekeeper_executable()
        native.preload_library()
    except WarpserveError as error:
        return Finding(
            what="native parts",
            verdict=Verdict.BROKEN,
            detail=str(error),
            remedy="make .venv/installed",
        )
    return Finding(what="native parts", verdict=Verdict.OK, detail="installed")


def _zeromq() -> Finding:
    import zmq

    try:
        native.zmq_library()
    except WarpserveError as error:
        return Finding(
            what="ZeroMQ", verdict=Verdict.BROKEN, detail=str(error), remedy="install the wheel"
        )
    if not zmq.has("curve"):
        return Finding(
            what="ZeroMQ",
            verdict=Verdict.LIMITED,
            detail="this libzmq has no CURVE: other hosts cannot join",
            remedy="pip install --force-reinstall --only-binary :all: pyzmq",
        )
    return Finding(what="ZeroMQ", verdict=Verdict.OK, detail=f"{zmq.zmq_version()} with CURVE")


def _sessions_folder() -> Finding:
    try:
        folder = sessions_folder()
    except (WarpserveError, OSError) as error:
        return Finding(
            what="sessions folder",
            verdict=Verdict.BROKEN,
            detail=str(error),
            remedy="set XDG_RUNTIME_DIR to a folder of yours",
        )
    return Finding(what="sessions folder", verdict=Verdict.OK, detail=str(folder))


def _stale_sessions() -> Finding:
    try:
        sessions = list_sessions()
    except (WarpserveError, OSError):
        return Finding(
            what="leftovers",
            verdict=Verdict.LIMITED,
            detail="unknown: the sessions folder cannot be used",
            remedy="mend the sessions folder",
        )
    stale = []
    for folder in sessions:
        try:
            session_state(folder)
        except WarpserveError:
            stale.append(folder)
    if stale:
        return Finding(
            what="leftovers",
            verdict=Verdict.LIMITED,
            detail=f"{len(stale)} session(s) without a Timekeeper: {stale[0]}",
            remedy=f"rm -r {' '.join(map(str, stale))}",
        )
    return Finding(what="leftovers", verdict=Verdict.OK, detail="none")


def _compiler() -> Finding:
    missing = [tool for tool in ("c++", "cmake") if shutil.which(tool) is None]
    if missing:
        return Finding(
            what="compiler",
            verdict=Verdict.LIMITED,
            detail=f"no {' and no '.join(missing)}: warpserve cannot be rebuilt here",
            remedy="on Debian: apt-get install g++ cmake",
        )
    return Finding(what="compiler", verdict=Verdict.OK, detail=shutil.which("c++") or "")


def _cores() -> Finding:
    cores = len(os.sched_getaffinity(0))
    if cores < 2:
        return Finding(
            what="cores",
            verdict=Verdict.LIMITED,
            detail="one: the Timekeeper and the members take turns",
            remedy="give it two or more for speed; results are the same",
        )
    return Finding(what="cores", verdict=Verdict.OK, detail=str(cores))

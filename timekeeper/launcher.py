"""Starts a Timekeeper, has it start members, and ends the session."""

from __future__ import annotations

import contextlib
import os
import secrets
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from warpserve.errors import SessionEnded, SessionError
from warpserve.timekeeper import native
from warpserve.timekeeper.control import ControlConnection, Exited
from warpserve.timekeeper.leftovers import clock_of, kill_leftovers
from warpserve.timekeeper.options import SessionOptions
from warpserve.timekeeper.shared_memory import NotedMemory
from warpserve.timekeeper.state import SessionState

_READY_LIMIT_S = 30.0
_END_LIMIT_S = 30.0


def sessions_folder() -> Path:
    """The folder of this user's sessions, made where it is missing; nobody else can read it."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    root = Path(runtime) if runtime and Path(runtime).is_dir() else Path(tempfile.gettempdir())
    folder = root / f"warpserve-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    info = folder.lstat()
    if info.st_uid != os.getuid() or info.st_mode & 0o077 or folder.is_symlink():
        raise SessionError(
            f"{folder} must be a folder of yours that nobody else can enter (chmod 700); "
            "set XDG_RUNTIME_DIR to use another place"
        )
    return folder


def member_environment(folder: Path, base: Mapping[str, str] | None = None) -> dict[str, str]:
    """`base` (default: this process's environment) with what makes a process a member."""
    env = dict(os.environ if base is None else base)
    library = str(native.preload_library())
    preloaded = [entry for entry in env.get("LD_PRELOAD", "").split(":") if entry]
    if library not in preloaded:
        preloaded.insert(0, library)
    env["LD_PRELOAD"] = ":".join(preloaded)
    env["WARPSERVE_SESSION"] = str(folder)
    return env


def _refuse_inside_a_session() -> None:
    """Its Timekeeper would wait on a clock that it owns no part of, and hold up the outer one."""
    outer = os.environ.get("WARPSERVE_SESSION")
    if outer:
        raise SessionError(
            f"this process is a member of session {Path(outer).name} already, and a session inside "
            "a session is not possible: start the command itself, or the session from outside"
        )


def _wait_until_ready(process: subprocess.Popen[bytes], ready_fd: int) -> None:
    """Raises SessionError where the Timekeeper does not say that it is, within the limit."""
    deadline = time.monotonic() + _READY_LIMIT_S
    said = _read_to_end(ready_fd, deadline)
    if said is None:
        raise SessionError(
            f"the Timekeeper was not ready within {_READY_LIMIT_S} s; start it again when this "
            "machine is less busy, and see `warpserve doctor` where that does not help"
        )
    if said != b"ready\n":
        with contextlib.suppress(subprocess.TimeoutExpired):  # it may be writing its message still
            process.wait(max(0.0, deadline - time.monotonic()))
        raise SessionError("the Timekeeper did not start; its message is on stderr")


def _read_to_end(fd: int, deadline: float) -> bytes | None:
    """What is written to the pipe until its other end is closed; None where that is too late."""
    poller = select.poll()
    poller.register(fd, select.POLLIN)
    read = b""
    while poller.poll(max(0.0, deadline - time.monotonic()) * 1000):
        part = os.read(fd, 64)
        if not part:
            return read
        read += part
    return None


class RunningSession:
    """A session that this process has started; a context manager that ends it.

    Members are children of the Timekeeper, not of this process.
    """

    def __init__(self, options: SessionOptions | None = None) -> None:
        _refuse_inside_a_session()
        self.options = options or SessionOptions()
        self.folder = sessions_folder() / secrets.token_hex(4)
        self.folder.mkdir(mode=0o700)
        # In memory: a file would stay behind where this process is killed.
        self._summary_fd = os.memfd_create("warpserve-summary", os.MFD_CLOEXEC)
        self._noted_memory: NotedMemory | None = NotedMemory(self.folder)
        self._process: subprocess.Popen[bytes] | None = None
        self._clock: int | None = None
        try:
            self._write_private("token", secrets.token_bytes(32))
            self._start_timekeeper()
            self._control = ControlConnection(self.folder)
            self._clock = clock_of(self.timekeeper_pid)
        except BaseException:
            self._clean_up()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.end()

    @property
    def timekeeper_pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def spawn(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        stdio: tuple[int, int, int] = (0, 1, 2),
        ends_session: bool = False,
    ) -> int:
        """Starts `command` as a member; returns its pid.

        `ends_session`: the session ends at the virtual time at which the command does, whatever
        else still runs. Otherwise it goes on until `end`.
        """
        return self._control.spawn(
            command,
            env=member_environment(self.folder, env),
            cwd=cwd or Path.cwd(),
            stdio=stdio,
            ends_session=ends_session,
        )

    def wait_exited(self, timeout_s: float | None = None) -> Exited | None:
        """The next end of a spawned member, None on time-out.

        Raises SessionEnded where the Timekeeper has gone or ended the session.
        """
        return self._control.wait_exited(timeout_s)

    def wait(self, pid: int) -> int:
        """The exit code of the member `pid`, negative for a signal."""
        while True:
            exited = self.wait_exited()
            if exited is not None and exited.pid == pid:
                return exited.exit_code

    def state(self) -> SessionState:
        """The session as it stands."""
        return SessionState.model_validate_json(self._control.status_json())

    def terminate(self, pid: int) -> None:
        """Asks the member `pid` to end, with all that it has started: no death is reported any
        more, nor told as a kill by `state`.
        """
        self._control.tell_ending()
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)

    def end(self) -> SessionState | None:
        """Ends the members that still run and the Timekeeper.

        Returns the last state of the session; None where the Timekeeper died without telling it.
        Safe to call again.
        """
        if self._process is None:
            return None
        with contextlib.suppress(SessionEnded):
            self._control.end()
        try:
            self._process.wait(_END_LIMIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        state = self._read_summary()
        self._clean_up()
        return state

    def _start_timekeeper(self) -> None:
        ready_read, ready_write = os.pipe()
        command = [
            str(native.timekeeper_executable()),
            f"--folder={self.folder}",
            f"--summary=/proc/self/fd/{self._summary_fd}",
            f"--zmq-library={native.zmq_library()}",
            f"--ready-fd={ready_write}",
            *self.options.timekeeper_flags(),
        ]
        try:
            try:
                self._process = subprocess.Popen(
                    command, pass_fds=[ready_write, self._summary_fd], stdin=subprocess.DEVNULL
                )
            finally:
                os.close(ready_write)
            _wait_until_ready(self._process, ready_read)
        finally:
            os.close(ready_read)

    def _write_private(self, name: str, content: bytes) -> None:
        fd = os.open(self.folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(fd, "wb") as file:
            file.write(content)

    def _read_summary(self) -> SessionState | None:
        content = os.pread(self._summary_fd, os.fstat(self._summary_fd).st_size, 0)
        return SessionState.model_validate_json(content) if content else None

    def _clean_up(self) -> None:
        control = getattr(self, "_control", None)
        if control is not None:
            control.close()
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        self._process = None
        killed = kill_leftovers(self.folder, self._clock)
        if killed:
            print(f"warpserve: killed what was left of the session: {killed}", file=sys.stderr)
        if self._noted_memory is not None:
            self._noted_memory.remove()
            self._noted_memory = None
        shutil.rmtree(self.folder, ignore_errors=True)
        if self._summary_fd >= 0:
            os.close(self._summary_fd)
            self._summary_fd = -1


def list_sessions() -> list[Path]:
    """The folders of this user's running sessions."""
    return sorted(
        path for path in sessions_folder().iterdir() if (path / "control.sock").is_socket()
    )


def session_state(folder: Path) -> SessionState:
    """The state of a running session, asked by anybody of the same user."""
    connection = ControlConnection(folder)
    try:
        return SessionState.model_validate_json(connection.status_json())
    finally:
        connection.close()

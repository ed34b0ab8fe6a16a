"""What the end-to-end tests share: running `warpserve`, compiling programs, loading the cores."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest

from warpserve.errors import SessionEnded
from warpserve.timekeeper.control import ControlConnection
from warpserve.timekeeper.leftovers import kill_leftovers
from warpserve.timekeeper.state import SessionState

CLIENTS = Path(__file__).parent / "clients"
_T = TypeVar("_T")
_MEMBER_PYTHONS = ("3.10", "3.11", "3.12", "3.13")


@dataclass(frozen=True)
class Outcome:
    """A `warpserve` command that has ended."""

    exit_code: int
    stdout: str
    stderr: str
    state: SessionState | None  # of --summary; None where the session left none

    @property
    def session(self) -> SessionState:
        """The session's last state; fails the test, with what was printed, where there is none."""
        assert self.state is not None, f"exit code {self.exit_code}, no summary:\n{self.stderr}"
        return self.state


class RunningWarpserve:
    """A `warpserve run` in the background, in its own process group and runtime folder."""

    def __init__(self, process: subprocess.Popen[str], runtime: Path, summary: Path) -> None:
        self.process = process
        self._runtime = runtime
        self._summary = summary

    def session_folder(self) -> Path:
        """The folder of the session; waits for it to answer."""
        return eventually(self._answering_folder, "a session that answers")

    def state(self) -> SessionState:
        """The session as it stands."""
        connection = ControlConnection(self.session_folder())
        try:
            return SessionState.model_validate_json(connection.status_json())
        finally:
            connection.close()

    def timekeeper_pid(self) -> int:
        return children_of(self.process.pid)[0]

    def member_pid(self, name: str) -> int:
        """The pid of the member whose program is called `name`; waits for it to join."""

        def find() -> int | None:
            members = self.state().members
            return next((m.id for m in members if m.name == name and m.virtual_clock), None)

        return eventually(find, f"a member {name}")

    def wait(self, limit_s: float = 60.0) -> Outcome:
        """Waits for the end; past `limit_s` of host time the test fails and shows the session."""
        try:
            stdout, stderr = self.process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            picture = self._picture()
            self.kill()
            stdout, stderr = self.process.communicate()
            pytest.fail(
                f"still running after {limit_s} s\nstdout: {stdout}\nstderr: {stderr}\n{picture}"
            )
        state = None
        if self._summary.exists():
            state = SessionState.model_validate_json(self._summary.read_bytes())
        return Outcome(self.process.returncode, stdout, stderr, state)

    def end(self) -> Outcome:
        """Ends the session as a service manager would."""
        self.process.terminate()
        return self.wait()

    def kill(self) -> None:
        """Kills the launcher and all that it started."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        for folder in self._folders():
            kill_leftovers(folder)

    def _picture(self) -> str:
        try:
            return self.state().model_dump_json(indent=1)
        except Exception as error:  # any failure to draw it must not hide the time-out
            return f"no picture of the session: {error!r}"

    def _folders(self) -> list[Path]:
        return sorted(self._runtime.glob("warpserve-*/*/"))

    def _answering_folder(self) -> Path | None:
        assert self.process.poll() is None, f"ended: {self.process.communicate()}"
        for folder in self._folders():
            with contextlib.suppress(SessionEnded):  # its socket is there before it listens
                ControlConnection(folder).close()
                return folder
        return None


@contextlib.contextmanager
def short_folder() -> Iterator[Path]:
    """For sockets: their paths have at most 107 bytes, and pytest's own folders are long."""
    with tempfile.TemporaryDirectory(prefix="wst-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


class Warpserve:
    """Runs the `warpserve` command; every session of one instance lives in one private folder."""

    def __init__(self) -> None:
        self._open = contextlib.ExitStack()
        self.runtime = self._open.enter_context(short_folder())
        self._running: list[RunningWarpserve] = []
        self._count = 0

    def start(
        self,
        command: Sequence[str | Path],
        *,
        options: Sequence[str] = (),
        prefix: Sequence[str | Path] = (),
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        stdin: int = subprocess.DEVNULL,
        preexec_fn: Callable[[], None] | None = None,
    ) -> RunningWarpserve:
        """`PREFIX warpserve run OPTIONS -- COMMAND` in the background."""
        self._count += 1
        summary = self.runtime / f"summary-{self._count}.json"
        process = subprocess.Popen(
            [
                *map(str, prefix),
                *_CLI,
                "run",
                f"--summary={summary}",
                *options,
                "--",
                *map(str, command),
            ],
            env=self.environment(env),
            cwd=cwd,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            preexec_fn=preexec_fn,
        )
        running = RunningWarpserve(process, self.runtime, summary)
        self._running.append(running)
        return running

    def run(self, command: Sequence[str | Path], *, limit_s: float = 60.0, **how: Any) -> Outcome:
        """The same to its end, which must come within `limit_s` of host time."""
        return self.start(command, **how).wait(limit_s)

    def cli(self, *arguments: str, limit_s: float = 60.0) -> Outcome:
        """Any other subcommand."""
        done = subprocess.run(
            [*_CLI, *arguments],
            env=self.environment(None),
            capture_output=True,
            text=True,
            timeout=limit_s,
            check=False,
        )
        return Outcome(done.returncode, done.stdout, done.stderr, None)

    def environment(self, extra: Mapping[str, str] | None) -> dict[str, str]:
        return {
            **os.environ,
            "XDG_RUNTIME_DIR": str(self.runtime),
            "TMPDIR": str(self.runtime),
            "COLUMNS": "160",
            "NO_COLOR": "1",
            **(extra or {}),
        }

    def leftovers(self) -> list[str]:
        """What sessions have left behind: processes, files and sockets."""
        sessions = self.runtime / f"warpserve-{os.getuid()}"
        folders = sorted(sessions.iterdir()) if sessions.exists() else []
        results = sorted(self.runtime.glob("warpserve-*"))
        return [
            *(f"process {pid}" for pid in processes_of_runtime(self.runtime)),
            *(str(path) for path in folders),
            *(str(path) for path in results if path != sessions),
        ]

    def close(self) -> None:
        """Kills what a failed test left running and removes the folder."""
        for running in self._running:
            running.kill()
            for stream in (running.process.stdin, running.process.stdout, running.process.stderr):
                if stream is not None:
                    stream.close()
        for pid in processes_of_runtime(self.runtime):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._open.close()


# -P: the installed package, not what the working directory holds.
_CLI = [sys.executable, "-P", "-m", "warpserve"]


def processes_of_runtime(runtime: Path) -> list[int]:
    """The live processes whose environment names `runtime`."""
    needle = f"XDG_RUNTIME_DIR={runtime}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            environment = (entry / "environ").read_bytes().split(b"\0")
            if needle in environment and process_state(int(entry.name)) not in ("Z", "X"):
                found.append(int(entry.name))
    return sorted(found)


def children_of(pid: int) -> list[int]:
    """The live children of a process, oldest first."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            fields = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()
            if int(fields[1]) == pid and fields[0] not in "ZX":
                found.append(int(entry.name))
    return sorted(found)


def free_port() -> int:
    """Of 127.0.0.1, nobody's at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def process_state(pid: int) -> str | None:
    """The state letter of a process, None where there is none."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    return stat.rpartition(")")[2].split()[0]


def eventually(look: Callable[[], _T | None], what: str, limit_s: float = 30.0) -> _T:
    """The first result of `look` but None and False; fails after `limit_s` of host time."""
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline:
        found = look()
        if found is not None and found is not False:
            return found
        time.sleep(0.02)
    pytest.fail(f"{what}: not within {limit_s} s")


def compile_native(folder: Path, source: str | Path, *flags: str) -> Path:
    """The program built from C source (a text, or a file; C++ where its name ends in .cpp)."""
    text = source.read_text() if isinstance(source, Path) else source
    language = "c++" if isinstance(source, Path) and source.suffix == ".cpp" else "c"
    compiler = shutil.which("c++" if language == "c++" else "cc")
    assert compiler, "these tests need a C and a C++ compiler: cc and c++"
    digest = hashlib.sha256("\0".join([text, *flags]).encode()).hexdigest()[:12]
    program = folder / f"program-{digest}"
    if not program.exists():
        subprocess.run(
            [compiler, "-x", language, "-", "-O1", "-pthread", *flags, "-o", str(program)],
            input=text,
            text=True,
            check=True,
        )
    return program


def member_pythons() -> list[str]:
    """The interpreters to test in: those of 3.10 to 3.13 that PATH has, and our own."""
    found = {}
    for version in _MEMBER_PYTHONS:
        path = shutil.which(f"python{version}")
        if path and _runs(path, version):
            found[version] = path
    found[f"{sys.version_info.major}.{sys.version_info.minor}"] = sys.executable
    return [found[version] for version in sorted(found)]


def _runs(path: str, version: str) -> bool:
    """Whether it is that version: a version manager's stand-in may know of none."""
    check = f"import sys; sys.exit('%d.%d' % sys.version_info[:2] != {version!r})"
    return subprocess.run([path, "-c", check], capture_output=True, check=False).returncode == 0


@contextlib.contextmanager
def busy_cores() -> Iterator[None]:
    """All cores loaded by processes outside of any session, at the lowest priority."""
    spin = "import os\nos.nice(19)\nprint(flush=True)\nwhile True: pass"
    spinners = [
        subprocess.Popen([sys.executable, "-c", spin], stdout=subprocess.PIPE)
        for _ in range(os.cpu_count() or 1)
    ]
    try:
        for spinner in spinners:
            assert spinner.stdout is not None
            spinner.stdout.readline()
        yield
    finally:
        for spinner in spinners:
            spinner.kill()
            spinner.communicate()

"""Who dies while the real vLLM serves a benchmark: the run says so, and keeps what was measured."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.engine.runs import THREE_SERVERS, TWO_RANKS, bench_command
from tests.engine.sessions import ENGINE, LIMIT_S
from tests.engine.sglang_served import SGLANG
from tests.harness import Warpserve, children_of, eventually
from warpserve.bench.run_folder import RunFolder
from warpserve.bench.steps import REQUEST_PREFIX
from warpserve.patches.engines import EngineRequirement

REQUESTS, OUTPUT_TOKENS = 200, 30
LOAD = ("--predictor=constant:20ms", "--rate=20", f"--num-requests={REQUESTS}")
UNDER_LOAD = f"-{REQUEST_PREFIX}100-"
"""The id of a request by which some are answered, and of which more will come."""


def run_until_killed(
    warpserve: Warpserve,
    folder: RunFolder,
    victim: str,
    *options: str,
    engine: EngineRequirement = ENGINE,
) -> tuple[int, str]:
    """Kills the first process that is called ``victim`` under load; the run's exit code and what it
    says on stderr.
    """
    workload = folder.path.parent / "lengths.csv"
    rows = [f"{i},100,{OUTPUT_TOKENS}" for i in range(REQUESTS)]
    workload.write_text("\n".join(["arrival_time_ns,input_toks,output_toks", *rows]) + "\n")
    with subprocess.Popen(
        bench_command(folder.path, *LOAD, f"--workload={workload}", *options, engine=engine),
        env=warpserve.environment(None),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as run:

        def under_load() -> bool:
            assert run.poll() is None, run.communicate()[1]
            return any(UNDER_LOAD in file.read_text() for file in folder.steps.glob("*"))

        eventually(under_load, "a server under load", LIMIT_S)
        os.kill(_called(run.pid, victim), signal.SIGKILL)
        _, said = run.communicate(timeout=LIMIT_S)
    return run.returncode, said


def _below(pid: int) -> list[int]:
    """The processes that descend from one. Engines overwrite their environment with their title, so
    that it tells no session.
    """
    children = children_of(pid)
    return children + [other for child in children for other in _below(child)]


def _called(root: int, name: str) -> int:
    """The first below ``root`` that has ``name`` in its command line or title."""
    titles = {
        pid: Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
        for pid in _below(root)
    }
    return next(pid for pid, title in titles.items() if name in title)


BY_SIGNAL, IN_MID_RUN = "was killed by signal 9", "the engine ended in mid-run"
THOROUGH = pytest.mark.thorough


@pytest.mark.parametrize(
    ("engine", "victim", "options", "complaint"),
    [
        pytest.param(
            ENGINE, "vllm serve", (), f"{IN_MID_RUN} (exit code -9)", id="server", marks=THOROUGH
        ),
        pytest.param(
            ENGINE, "APIServer_1", THREE_SERVERS, BY_SIGNAL, id="one_of_three", marks=THOROUGH
        ),
        pytest.param(ENGINE, "VLLM::EngineCore", (), BY_SIGNAL, id="engine_core"),
        pytest.param(ENGINE, "Worker_TP1", TWO_RANKS, BY_SIGNAL, id="one_of_two", marks=THOROUGH),
        pytest.param(SGLANG, "sglang::scheduler", ("--client=own",), IN_MID_RUN, id="sglang"),
    ],
)
def test_a_part_of_the_server_is_killed(
    warpserve: Warpserve,
    tmp_path: Path,
    engine: EngineRequirement,
    victim: str,
    options: tuple[str, ...],
    complaint: str,
) -> None:
    folder = RunFolder(tmp_path / "run")
    exit_code, said = run_until_killed(warpserve, folder, victim, *options, engine=engine)
    assert exit_code != 0
    assert complaint in said
    requests = [json.loads(line) for line in folder.requests.read_text().splitlines()]
    assert len(requests) == REQUESTS
    whole = [request for request in requests if len(request["itl_s"]) == OUTPUT_TOKENS - 1]
    assert 0 < len(whole) < REQUESTS
    assert all(request["error"] is None for request in whole)
    summary = json.loads(folder.summary.read_text())
    assert summary["completed"] - summary["truncated"] == len(whole)
    assert folder.engine_log.stat().st_size > 0
    assert folder.metrics.stat().st_size > 0


def test_the_client_is_killed(warpserve: Warpserve, tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    exit_code, said = run_until_killed(warpserve, folder, "bench serve")
    assert exit_code != 0
    assert f"the client failed (exit code -9): see {folder.client_log}" in said
    assert any(file.stat().st_size for file in folder.steps.iterdir())
    assert folder.metrics.stat().st_size > 0

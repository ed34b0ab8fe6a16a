"""Who dies while the real SGLang serves, and what it can't serve at all."""

from __future__ import annotations

import json
import re
import socket
from pathlib import Path

from tests.engine.pressure import Pressure
from tests.engine.sessions import LIMIT_S, MODEL, on_gpu
from tests.engine.sglang_served import IS_OLD, sglang_python
from tests.harness import Warpserve, free_port


def test_a_killed_client_leaves_the_server_free(sglang_pressure: Pressure) -> None:
    said = json.loads(sglang_pressure.served.log("killed_client"))
    assert said["client"] == -9
    assert said["running"] == 0 or IS_OLD
    ends_ns = [step["end_ns"] for step in sglang_pressure.served.steps]
    assert not [end_ns for end_ns in ends_ns if 0 <= said["now_ns"] - end_ns < 1e9]
    assert "was killed by signal 9 (Killed)" in sglang_pressure.served.outcome.stderr


def test_a_killed_scheduler_ends_its_server_and_all_clients_hear_of_it(
    sglang_pressure: Pressure,
) -> None:
    assert json.loads(sglang_pressure.served.log("killed_scheduler"))["running"] is None
    assert set(sglang_pressure.load("killed_scheduler").statuses) == {0}
    assert "crashed with exit code -9" in sglang_pressure.served.log("server")
    assert sglang_pressure.served.exit_codes["server"] != 0


def refused_by_the_engine(warpserve: Warpserve, folder: Path, *flags: str) -> str:
    """What ``sglang.launch_server`` prints, which is to fail, and leave nothing running."""
    command: list[str | Path] = [
        sglang_python(), "-m", "sglang.launch_server", "--model-path", MODEL,
        "--host=127.0.0.1", *flags,
    ]  # fmt: skip
    options = on_gpu(folder / "steps", predictor="constant:10ms")
    outcome = warpserve.run(command, options=options, limit_s=LIMIT_S)
    printed = outcome.stdout + outcome.stderr
    assert outcome.exit_code != 0, printed
    return printed


def test_a_port_in_use(warpserve: Warpserve, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        printed = refused_by_the_engine(warpserve, tmp_path, f"--port={port}")
    assert re.search("[Aa]ddress already in use", printed), printed


def test_a_model_that_does_not_fit(warpserve: Warpserve, tmp_path: Path) -> None:
    flags = ("--model-path=meta-llama/Llama-3.1-70B-Instruct", f"--port={free_port()}")
    printed = refused_by_the_engine(warpserve, tmp_path, *flags)
    assert "out of memory" in printed.lower() or "Not enough memory" in printed, printed

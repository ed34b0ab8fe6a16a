"""What no run can be made of, and who dies in one: the engine's own error where it has one."""

from __future__ import annotations

import json
import socket
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.engine.pressure import Pressure
from tests.engine.sessions import LIMIT_S, MODEL, on_gpu, vllm_bin
from tests.harness import Outcome, Warpserve, free_port
from warpserve.bench.run_folder import RunFolder
from warpserve.cli import app

HEADER = "arrival_time_ns,input_toks,output_toks\n"


# --- before anything starts ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--rate=0"], "rate: Input should be greater than 0, not 0.0"),
        (["--rate=-4"], "rate: Input should be greater than 0, not -4.0"),
        (["--rate=nan"], "rate: Input should be greater than 0, not nan"),
        (["--num-requests=0"], "num_requests: Input should be greater than or equal to 1"),
        (["--max-concurrency=0"], "max_concurrency: Input should be greater than or equal to 1"),
        (["--predictor=constant:-1ms"], "--predictor constant:-1ms"),
    ],
)
def test_an_experiment_without_sense(tmp_path: Path, options: list[str], complaint: str) -> None:
    assert refused(tmp_path, *options).count(complaint) == 1


@pytest.mark.parametrize(
    ("trace", "complaint"),
    [
        ("", "has no requests"),
        ("arrival,input\n0,1\n", "line 2, column arrival is not known"),
        (HEADER, "has no requests"),
        (f"{HEADER}0,100\n", "line 2"),
        (f"{HEADER}0,100,10\n5,-100,10\n", "line 3"),
    ],
)
def test_a_trace_that_is_empty_or_broken(tmp_path: Path, trace: str, complaint: str) -> None:
    path = tmp_path / "trace.csv"
    path.write_text(trace)
    printed = refused(tmp_path, f"--workload={path}")
    assert str(path) in printed
    assert complaint in printed


def refused(tmp_path: Path, *options: str) -> str:
    """What `warpserve bench` says; it has started nothing and left nothing."""
    run = ["bench", "--model=llama-3.1-8b", "--gpu=h100-sxm", f"--out={tmp_path / 'run'}"]
    if not any(option.startswith("--predictor") for option in options):
        run.append("--predictor=constant:10ms")
    outcome = CliRunner().invoke(app, [*run, *options])
    assert outcome.exit_code == 2, outcome.output
    assert not (tmp_path / "run").exists()
    return outcome.output


# --- the engine's own errors --------------------------------------------------------------------


def refused_by_the_engine(warpserve: Warpserve, tmp_path: Path, *flags: str) -> str:
    """What `vllm serve` prints, which is to fail."""
    command = [str(vllm_bin() / "vllm"), "serve", MODEL, "--host=127.0.0.1", *flags]
    options = on_gpu(tmp_path / "steps", predictor="constant:10ms")
    outcome = warpserve.run(command, options=options, limit_s=LIMIT_S)
    printed = outcome.stdout + outcome.stderr
    assert outcome.exit_code == 1, printed
    return printed


def test_more_ranks_than_gpus(warpserve: Warpserve, tmp_path: Path) -> None:
    printed = refused_by_the_engine(warpserve, tmp_path, "--tensor-parallel-size=4")
    assert "World size (4) is larger than the number of available GPUs (1)" in printed


def test_a_port_in_use(warpserve: Warpserve, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        printed = refused_by_the_engine(warpserve, tmp_path, f"--port={port}")
    assert "Address already in use" in printed


def test_a_kv_cache_too_small_for_the_longest_prompt(warpserve: Warpserve, tmp_path: Path) -> None:
    flags = ("--max-model-len=8192", "--kv-cache-memory-bytes=134217728", f"--port={free_port()}")
    printed = refused_by_the_engine(warpserve, tmp_path, *flags)
    assert "the estimated maximum model length is 10" in printed


def test_a_connector_whose_transfers_would_take_no_time(
    warpserve: Warpserve, tmp_path: Path
) -> None:
    connector = {"kv_connector": "ExampleConnector", "kv_role": "kv_both"}
    flags = (f"--kv-transfer-config={json.dumps(connector)}", f"--port={free_port()}")
    printed = refused_by_the_engine(warpserve, tmp_path, *flags)
    assert "KV connectors (--kv-transfer-config) other than OffloadingConnector, " in printed


# --- who dies in mid-run ------------------------------------------------------------------------


def test_a_killed_client_leaves_the_server_free(pressure: Pressure) -> None:
    said = json.loads(pressure.served.log("killed_client"))
    assert (said["client"], said["running"]) == (-9, 0)
    assert "was killed by signal 9 (Killed)" in pressure.served.outcome.stderr


def test_a_killed_engine_core_is_told_to_all_clients(pressure: Pressure) -> None:
    load = pressure.load("killed_core")
    assert set(load.statuses) == {500}
    message = load.answers[0]["answer"]["error"]["message"]
    of_0_33 = "The server had an error while processing your request."
    assert message.startswith(("EngineCore encountered an issue", of_0_33))


def test_a_killed_engine_core_ends_its_server(pressure: Pressure) -> None:
    said = json.loads(pressure.served.log("killed_core"))
    assert (said["client"], said["running"]) == (0, None)
    assert "EngineDeadError" in pressure.served.log("server")
    assert "server" in pressure.served.exit_codes


STAND_IN = """#!{python}
# In place of an engine: its server runs until it is killed, its client kills.
import os, pathlib, signal, sys, time

here = pathlib.Path(__file__).parent
if sys.argv[1] == "serve":
    (here / "server.pid.new").write_text(str(os.getpid()))
    (here / "server.pid.new").rename(here / "server.pid")
    print("serving", flush=True)
    time.sleep(1e9)
while not (here / "server.pid").exists():
    time.sleep(0.01)
print("sending", flush=True)
server = int((here / "server.pid").read_text())
os.kill({{"client": os.getpid(), "server": server}}["{victim}"], signal.SIGKILL)
time.sleep(1e9)
"""


def bench_with(stand_in: str, warpserve: Warpserve, folder: RunFolder, *options: str) -> Outcome:
    """`warpserve bench` with a script in the place of an engine's `vllm`."""
    programs = folder.path.parent / "bin"
    programs.mkdir()
    (programs / "python").symlink_to(sys.executable)
    (programs / "vllm").write_text(stand_in)
    (programs / "vllm").chmod(0o755)
    return warpserve.cli(
        "bench", "--model=llama-3.1-8b", "--gpu=h100-sxm", "--predictor=constant:10ms",
        f"--engine-python={programs / 'python'}", f"--out={folder.path}", *options,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("victim", "complaint"),
    [
        ("client", "the client failed (exit code -9): see {folder}/client.log"),
        ("server", "ended before it was ready (exit code -9): see {folder}/engine.log"),
    ],
)
def test_a_benchmark_in_which_one_is_killed_keeps_its_folder(
    warpserve: Warpserve, tmp_path: Path, victim: str, complaint: str
) -> None:
    folder = RunFolder(tmp_path / "run")
    stand_in = STAND_IN.format(python=sys.executable, victim=victim)
    outcome = bench_with(stand_in, warpserve, folder)
    assert outcome.exit_code == 2
    assert complaint.format(folder=folder.path) in outcome.stderr
    assert folder.engine_log.read_text() == "serving\n"
    assert folder.client_log.read_text() == "sending\n"
    assert folder.config.exists()
    assert folder.environment.exists()


LOST = """#!{python}
# In place of an engine: its server takes a step and ends as if all were well; its client tells.
import json, os, pathlib, sys, time

if sys.argv[1] == "serve":
    step = {{"start_ns": 0, "end_ns": 10_000_000, "duration_ns": 10_000_000, "provenance": "stated",
             "padded_tokens": 5, "request_ids": ["cmpl-bench-0-x"], "requests": [[5, 0, True]]}}
    log = pathlib.Path(os.environ["WARPSERVE_STEP_LOG"]) / "steps-1.jsonl"
    log.write_text(json.dumps(step) + "\\n")
    sys.exit(0)
time.sleep(60)
measured = {{"start_times": [1.0, 2.0], "input_lens": [5, 5], "output_lens": [1, 0],
             "ttfts": [0.01, 0.0], "itls": [[], []], "errors": ["", "no server"]}}
folder = pathlib.Path(sys.argv[sys.argv.index("--result-dir") + 1])
(folder / "client.json").write_text(json.dumps(measured))
"""


def test_a_server_that_ends_without_an_error_is_one_and_what_was_measured_is_kept(
    warpserve: Warpserve, tmp_path: Path
) -> None:
    folder = RunFolder(tmp_path / "run")
    stand_in = LOST.format(python=sys.executable)
    outcome = bench_with(stand_in, warpserve, folder, "--num-requests=2")
    assert outcome.exit_code == 2
    assert "the engine ended in mid-run (exit code 0): see" in outcome.stderr
    assert "1 of 2 requests completed, 1 failed" in outcome.stderr
    first, second = map(json.loads, folder.requests.read_text().splitlines())
    assert (first["ttft_s"], first["error"]) == (0.01, None)
    assert (second["ttft_s"], second["error"]) == (None, "no server")
    assert json.loads(folder.summary.read_text())["failed"] == 1

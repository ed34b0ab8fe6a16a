"""`warpserve record`, with a virtual GPU for its GPU: what it measures is known there."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.engine.sessions import (
    ENGINE,
    LIMIT_S,
    MODEL,
    TEXT_WAIT_S,
    on_gpu,
    read_steps,
    sessions,
    vllm_bin,
)
from tests.engine.sglang_served import SGLANG, sglang_python
from tests.harness import CLIENTS, free_port
from warpserve.bench.kv_cache import kv_tokens_of_file
from warpserve.bench.models import model_named
from warpserve.bench.real.read import read_runs
from warpserve.cli import app
from warpserve.predictors.deployment import Deployment
from warpserve.predictors.from_catalogue import hardware_of
from warpserve.predictors.origin import differences, origin_of
from warpserve.predictors.replay import recorded_steps
from warpserve.predictors.spec import parse

PREDICTOR = "analytic:scale=1.2,host=1ms,request_host=7ms"


def record(folder: Path, engine: Path, server: tuple[str, ...]) -> Path:
    """Records a server, and beside it goes the session's own step log.

    ``engine``: the folder of its programs; ``server``: a program of it, and what it is told.
    """
    port = free_port()
    bench = (
        vllm_bin() / "vllm", "bench", "serve", "--model", MODEL, "--port", port, "--ignore-eos",
        "--dataset-name", "random", "--random-input-len", 3_000, "--random-output-len", 20,
    )  # fmt: skip
    together = ("--num-prompts", 12, "--request-rate", 20)
    alone = (
        "--seed", 1, "--num-prompts", 8, "--max-concurrency", 1, "--save-result", "--save-detailed",
        "--result-filename", folder / "alone.json",
    )  # fmt: skip
    program, *told = server
    recorded = (sys.executable, "-m", "warpserve", "record", "--out", folder / "recording", "--")
    listen = ("--host", "127.0.0.1", "--port", port)
    plan = {
        "server": [str(word) for word in (*recorded, engine / program, *told, *listen)],
        "ready": f"http://127.0.0.1:{port}/health",
        "clients": {
            "together": [str(word) for word in (*bench, *together)],
            "alone": [str(word) for word in (*bench, *alone)],
        },
        "logs": str(folder),
    }
    (folder / "plan.json").write_text(json.dumps(plan))
    with sessions() as warpserve:
        outcome = warpserve.run(
            [engine / "python", CLIENTS / "served.py", folder / "plan.json"],
            options=on_gpu(folder / "steps", predictor=PREDICTOR),
            cwd=folder,
            limit_s=LIMIT_S,
        )
    assert outcome.exit_code == 0, outcome.stderr
    assert json.loads(outcome.stdout) == {"together": 0, "alone": 0, "server": 0}
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run in which vLLM was recorded."""
    return record(tmp_path_factory.mktemp("recorded"), vllm_bin(), ("vllm", "serve", MODEL))


def check_steps(folder: Path, within_ns: int = 1_000) -> None:
    """What was recorded is what was predicted, batch by batch."""
    predicted, recorded = read_steps(folder / "steps"), read_steps(folder / "recording" / "steps")
    assert {step["provenance"] for step in recorded} == {"measured"}

    def batches(steps: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
        return [(step["requests"], step["padded_tokens"], step["request_ids"]) for step in steps]

    assert batches(recorded) == batches(predicted)
    assert any(is_prefill for step in recorded for *_, is_prefill in step["requests"])
    for one, other in zip(predicted, recorded, strict=True):
        assert other["duration_ns"] == pytest.approx(one["duration_ns"], abs=within_ns)
        assert other["start_ns"] == pytest.approx(one["start_ns"], abs=within_ns * len(recorded))


def check_origin(said: dict[str, Any], engine: str, version: str) -> None:
    """What was recorded is known to be of the deployment that it is of."""
    config = model_named("llama-3.1-8b").config()
    own = Deployment(config, hardware_of("h100-sxm"), engine, version)
    assert differences(said["steps_of"], own) == []
    assert said["steps_of"].keys() == origin_of(own).keys()


def test_each_step_is_recorded_with_its_batch_and_duration(folder: Path) -> None:
    check_steps(folder)


def test_and_so_is_each_of_sglang(tmp_path: Path) -> None:
    server = ("python", "-m", "sglang.launch_server", "--model-path", MODEL)
    record(tmp_path, sglang_python().parent, server)
    check_steps(tmp_path, within_ns=5_000)  # copies of inputs lie between its events
    (file,) = (tmp_path / "recording").glob("recording-*.json")
    said = json.loads(file.read_text())
    assert (said["engine"], said["engine_version"]) == ("sglang", SGLANG.version)
    check_origin(said, "sglang", SGLANG.version)
    tokens = said["kv_cache"]["blocks"] * said["kv_cache"]["block_tokens"]
    assert kv_tokens_of_file(tmp_path / "recording" / "engine.log") == tokens
    (run,) = read_runs(tmp_path / "recording")
    assert (run.deployment.engine, run.deployment.kv_tokens) == ("sglang", tokens)


def test_what_was_recorded_is_for_predictors_and_benchmarks(folder: Path) -> None:
    recording = folder / "recording"
    assert len(recorded_steps(str(recording))) == len(read_steps(recording / "steps"))
    (file,) = recording.glob("recording-*.json")
    said = json.loads(file.read_text())
    assert (said["engine_version"], said["gpu"]["name"]) == (
        ENGINE.version,
        "NVIDIA H100 80GB HBM3",
    )
    check_origin(said, "vllm", ENGINE.version)
    assert said["config"]["scheduler_config"]["max_num_batched_tokens"] == 8_192
    tokens = said["kv_cache"]["blocks"] * said["kv_cache"]["block_tokens"]
    assert kv_tokens_of_file(recording / "engine.log") == tokens


def test_calibrating_to_a_recording_finds_what_was_said(folder: Path) -> None:
    files = (str(folder / "recording"), str(folder / "alone.json"))
    how = ("--model=llama-3.1-8b", "--gpu=h100-sxm", "--predictor=analytic", "--json")
    found = CliRunner().invoke(app, ["calibrate", *files, *how])
    assert found.exit_code == 0, found.output
    said = json.loads(found.stdout)
    options = parse(said["spec"]).options
    assert options.scale == pytest.approx(1.2, rel=0.05)
    assert options.host_ns == pytest.approx(1_000_000, rel=0.4), "decodes alike hardly tell it"
    assert options.prefill_scale == pytest.approx(1.2, rel=0.01)
    assert options.frontend.prompt_token_ns == 0, "all prompts are alike"
    assert options.frontend.request_ns == pytest.approx(7_000_000 + TEXT_WAIT_S * 1e9, rel=0.01)
    assert said["held_out_worst"] < 0.02

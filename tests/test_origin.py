"""Recorded steps know of which deployment they are (predictors/origin.py, transferred.py)."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.test_predictors import MODELS, decodes, deployment, law_ns, random_batches
from warpserve.cli import app
from warpserve.patches.step_log import StepLog
from warpserve.predictors.deployment import Deployment
from warpserve.predictors.from_catalogue import hardware_of
from warpserve.predictors.hardware import hardware_named
from warpserve.predictors.origin import differences, origin_of
from warpserve.predictors.predictor import Prediction, PredictorError, Provenance
from warpserve.predictors.spec import predictor_of, read_spec

OWN = deployment(tensor_parallel=2)
OTHERS: dict[str, dict[str, Any]] = {
    "gpu NVIDIA H100 80GB HBM3, here NVIDIA H200": {"hardware": hardware_of("h200:2")},
    "engine vllm, here sglang": {"engine": "sglang"},
    "engine_version 0.24.0, here 0.33.0": {"engine_version": "0.33.0"},
    "tensor_parallel 2, here 4": {"tensor_parallel": 4},
    "pipeline_parallel 1, here 2": {"pipeline_parallel": 2},
    "model.layers 32, here 36": {"config": MODELS["qwen3-8b"]},
    "weights bf16, here fp8": {"weights": "fp8"},
    "kv_cache bf16, here fp8": {"kv_cache": "fp8"},
}


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """As `warpserve record` leaves it, of OWN."""
    (tmp_path / "steps").mkdir()
    with (tmp_path / "steps" / "steps-0-0.jsonl").open("w") as file:
        for batch in [decodes(8, 500), *random_batches(400, seed=4)]:
            step = Prediction(round(law_ns(batch)), Provenance.MEASURED)
            StepLog(file).write(batch, [], step, 0, 1)
    # What records has no rates of the GPU.
    recorded = replace(OWN, hardware=hardware_named(OWN.hardware.name))
    write(tmp_path, {"steps_of": origin_of(recorded)})
    return tmp_path


def write(recording: Path, said: dict[str, Any]) -> None:
    (recording / "recording-1.json").write_text(json.dumps(said))


def learned(recording: Path) -> str:
    """The spec of what is learned from its steps."""
    pytest.importorskip("sklearn")
    out = recording / "learned.json"
    result = CliRunner().invoke(app, ["fit", str(recording / "steps"), "--out", str(out)])
    assert result.exit_code == 0, result.output
    assert "of vllm 0.24.0 on NVIDIA H100 80GB HBM3, tensor parallel 2" in result.stdout
    return f"learned:{out}"


def replayed(recording: Path) -> str:
    return f"replay:{recording}"


@pytest.mark.parametrize("spec", [learned, replayed])
def test_steps_of_another_deployment_count_as_extrapolated(recording: Path, spec: Any) -> None:
    said = spec(recording)
    own = predictor_of(said, OWN).predict(decodes(8, 500))
    assert own.provenance is not Provenance.EXTRAPOLATED
    for apart, changes in OTHERS.items():
        other = predictor_of(said, replace(OWN, **changes)).predict(decodes(8, 500))
        assert other.duration_ns == own.duration_ns
        assert other.provenance is Provenance.EXTRAPOLATED
        assert other.outside is not None
        assert other.outside.startswith("recorded of another deployment: ")
        assert apart in other.outside
        assert other.uncertainty is None
    strict = predictor_of(f"{said},strict", replace(OWN, engine_version="0.33.0"))
    with pytest.raises(PredictorError, match=r"0\.24\.0, here 0\.33\.0"):
        strict.predict(decodes(8, 500))


def test_of_much_that_is_apart_some_is_named(recording: Path) -> None:
    other = Deployment(MODELS["gpt-oss-120b"], hardware_of("l40s"), "sglang", "0.5.23")
    apart = differences(origin_of(OWN), other)
    assert apart[:2] == ["gpu NVIDIA H100 80GB HBM3, here NVIDIA L40S", "engine vllm, here sglang"]
    outside = predictor_of(replayed(recording), other).predict(decodes(8, 500)).outside
    assert outside is not None
    assert outside.endswith(f"; {apart[3]}, and {len(apart) - 4} more")


@pytest.mark.parametrize("path", ["", "steps", "steps/steps-0-0.jsonl"])
def test_whose_steps_they_are_is_found_beside_them(recording: Path, path: str) -> None:
    predictor = predictor_of(f"replay:{recording / path}", deployment())
    prediction = predictor.predict(decodes(8, 500))
    assert prediction.outside == "recorded of another deployment: tensor_parallel 2, here 1"


def test_steps_of_which_nobody_has_said_it_are_taken_for_ones_own(recording: Path) -> None:
    write(recording, {"engine": "vllm"})
    for _ in range(2):
        prediction = predictor_of(replayed(recording), deployment()).predict(decodes(8, 500))
        assert prediction.provenance is Provenance.MEASURED
        (recording / "recording-1.json").unlink(missing_ok=True)


def test_of_a_model_that_is_not_understood_the_rest_is_known() -> None:
    odd = replace(OWN, config={"architectures": ["Mamba2ForCausalLM"]})
    assert origin_of(odd)["tensor_parallel"] == 2
    assert differences(origin_of(odd), OWN) == []
    quantised = replace(OWN, weights="a new one")
    assert "model.layers" in origin_of(quantised)
    assert "weights" not in origin_of(quantised)


def test_a_broken_recording_is_named(recording: Path) -> None:
    for text in ("{", "[]"):
        (recording / "recording-1.json").write_text(text)
        with pytest.raises(PredictorError, match=r"recording-1\.json"):
            read_spec(replayed(recording))


def test_a_recording_that_says_half_of_it_is_named(recording: Path) -> None:
    facts = origin_of(OWN)
    del facts["gpu"]
    write(recording, {"steps_of": facts})
    with pytest.raises(PredictorError, match=r"recording-1\.json: steps_of lacks gpu"):
        read_spec(replayed(recording))

"""Predictors: what they read, what they answer, and what they refuse."""

from __future__ import annotations

import json
import math
import random
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from warpserve.bench.models import parameter_count, shipped_models
from warpserve.cli import app
from warpserve.errors import SessionError
from warpserve.members import MemberOptions, member_environment, prepare_members
from warpserve.patches.step_log import StepLog
from warpserve.patches.vllm import deployment as vllm_deployment
from warpserve.predictors.adjusted import Adjusted
from warpserve.predictors.analytic import collectives
from warpserve.predictors.analytic.attention import visible_pairs
from warpserve.predictors.analytic.collectives import all_reduce_ns, gather_ns
from warpserve.predictors.batch import Batch, Launch, RequestStep, Sampling
from warpserve.predictors.captured import SIZES, padded_tokens
from warpserve.predictors.composed import Composed
from warpserve.predictors.constant import Constant
from warpserve.predictors.curves import Curve, blend, position
from warpserve.predictors.deployment import Deployment, Drafter
from warpserve.predictors.drafted import Drafted
from warpserve.predictors.eager import launches
from warpserve.predictors.from_catalogue import hardware_of
from warpserve.predictors.hardware import hardware_environment, hardware_of_session
from warpserve.predictors.learned.bent_line import BentLine
from warpserve.predictors.learned.features import NAMES
from warpserve.predictors.learned.fit import fit
from warpserve.predictors.learned.predictor import Learned, Regression
from warpserve.predictors.mixed import Mixed, Prefill
from warpserve.predictors.model_shape import LatentAttention, ModelShape, model_shape
from warpserve.predictors.predictor import (
    Explaining,
    Lookups,
    OperatorTime,
    Prediction,
    PredictorError,
    Provenance,
)
from warpserve.predictors.prefills import decodes_alone
from warpserve.predictors.replay import (
    Replay,
    recorded_steps,
    replay_of,
    steps_of_first_stages,
)
from warpserve.predictors.spec import (
    check_spec,
    knows_prefills,
    predictor_of,
    predictor_of_session,
    read_spec,
)
from warpserve.predictors.strict import Strict
from warpserve.predictors.warned import Warned
from warpserve.predictors.weights import weights_of

ROOT = Path(__file__).parents[1]
UNHURRIED = settings(deadline=None, max_examples=30, suppress_health_check=[HealthCheck.too_slow])
"""However busy the machine is."""
MODELS = {model.name: model.config_of(model.publication[0]) for model in shipped_models()}
H100 = hardware_of("h100-sxm:8")


def deployment(model: str = "llama-3.1-8b", **changes: Any) -> Deployment:
    whole = Deployment(MODELS[model], H100, "vllm", "0.24.0")
    return replace(whole, **changes)


def decodes(count: int, context: int) -> Batch:
    return Batch((RequestStep(1, context - 1, is_prefill=False),) * count, padded_tokens(count))


def prefill(new: int, cached: int = 0) -> Batch:
    return Batch((RequestStep(new, cached, is_prefill=True),), padded_tokens(new))


def ns(predictor: Explaining, batch: Batch) -> int:
    return predictor.predict(batch).duration_ns


# What is read


def parameters_of(shape: ModelShape) -> int:
    """Matrices and embeddings alone."""
    hidden = shape.hidden
    attention = shape.attention
    if isinstance(attention, LatentAttention):
        of_heads = attention.heads * (attention.key_width + attention.value_width)
        queries = attention.heads * (attention.key_width + attention.position_width)
        rank = attention.query_rank
        per_layer = (
            hidden * (attention.latent_width + attention.position_width)
            + attention.latent_width * of_heads
            + attention.heads * attention.value_width * hidden
            + (hidden * queries if rank is None else rank * (hidden + queries))
        )
    else:
        heads = attention.heads + attention.kv_heads
        per_layer = 2 * hidden * attention.head_width * heads
    total = shape.layers * per_layer + shape.dense_layers * 3 * hidden * shape.intermediate
    if shape.experts is not None:
        widths = shape.experts.count * shape.experts.intermediate
        widths += shape.experts.shared_intermediate
        total += shape.experts.layers * 3 * hidden * widths
    return total + (1 if shape.tied_embedding else 2) * shape.vocabulary * hidden


@pytest.mark.parametrize("name", MODELS)
def test_shapes_of_shipped_models_have_all_their_parameters(name: str) -> None:
    counted = parameters_of(model_shape(MODELS[name]))
    assert counted == pytest.approx(parameter_count(MODELS[name]), rel=0.001)


@pytest.mark.parametrize(
    ("name", "sliding_layers", "window"),
    [("gemma-3-27b", 52, 1024), ("gpt-oss-20b", 12, 128), ("qwen3-8b", 0, 0)],
)
def test_layers_that_look_back_no_further_than_a_window(
    name: str, sliding_layers: int, window: int
) -> None:
    shape = model_shape(MODELS[name])
    assert (shape.sliding_layers, shape.sliding_window) == (sliding_layers, window)


@pytest.mark.parametrize(
    "field", ["hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size"]
)
def test_a_missing_field_is_named(field: str) -> None:
    config = {name: value for name, value in MODELS["llama-3.1-8b"].items() if name != field}
    with pytest.raises(PredictorError, match=field):
        model_shape(config)


@pytest.mark.parametrize("value", [0, -1, "4096", 4096.0, True])
def test_a_field_that_is_no_count_is_named(value: object) -> None:
    with pytest.raises(PredictorError, match="hidden_size"):
        model_shape(MODELS["llama-3.1-8b"] | {"hidden_size": value})


def test_layers_of_an_unknown_kind_are_refused() -> None:
    config = MODELS["qwen3-8b"] | {"layer_types": ["linear_attention", "full_attention"]}
    with pytest.raises(PredictorError, match="linear_attention"):
        model_shape(config)


def test_the_language_model_of_a_composite_is_read() -> None:
    assert model_shape({"text_config": MODELS["qwen3-8b"]}) == model_shape(MODELS["qwen3-8b"])


def compressed(kind: str, bits: int, activations_bits: int | None = None) -> dict[str, Any]:
    """A ``quantization_config`` of compressed-tensors; None: activations stay in bf16."""
    group: dict[str, Any] = {"weights": {"type": kind, "num_bits": bits}}
    if activations_bits:
        group["input_activations"] = {"type": kind, "num_bits": activations_bits}
    return {"quant_method": "compressed-tensors", "config_groups": {"group_0": group}}


@pytest.mark.parametrize(
    ("quantization", "dense", "experts"),
    [
        (None, "bf16", "bf16"),
        ({"quant_method": "fp8"}, "fp8", "fp8"),
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, "fp8_block", "fp8_block"),
        ({"quant_method": "mxfp4"}, "bf16", "mxfp4"),
        ({"quant_method": "awq", "bits": 4}, "int4", "int4"),
        ({"quant_method": "gptq", "bits": 8}, "int8_wo", "int8_wo"),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, "nvfp4", "nvfp4"),
        (compressed("float", 8, activations_bits=8), "fp8", "fp8"),
        (compressed("float", 8), "fp8_wo", "fp8_wo"),
        (compressed("int", 8, activations_bits=8), "int8", "int8"),
        (compressed("int", 8), "int8_wo", "int8_wo"),
        (compressed("int", 4), "int4", "int4"),
        (compressed("float", 4, activations_bits=4), "nvfp4", "nvfp4"),
        (compressed("float", 4), "nvfp4_wo", "nvfp4_wo"),
    ],
)
def test_how_weights_are_stored(
    quantization: dict[str, Any] | None, dense: str, experts: str
) -> None:
    weights = weights_of({"quantization_config": quantization})
    assert (weights.dense.name, weights.experts.name) == (dense, experts)


def test_weights_alone_that_are_stored_in_less_are_multiplied_in_bf16() -> None:
    stored, both, plain = (
        predictor_of("analytic", deployment(weights=name)) for name in ("int8_wo", "int8", None)
    )
    few = decodes(1, 10)
    assert ns(stored, few) == pytest.approx(ns(both, few))
    assert ns(stored, few) < 0.7 * ns(plain, few)
    assert ns(both, prefill(8192)) < 0.7 * ns(stored, prefill(8192))
    assert ns(stored, prefill(8192)) == pytest.approx(ns(plain, prefill(8192)), rel=0.05)
    of_experts = weights_of(MODELS["qwen3-30b-a3b"], "experts_int8")
    assert (of_experts.dense.name, of_experts.experts.name) == ("bf16", "int8_wo")


@pytest.mark.parametrize(
    "quantization",
    [
        {"quant_method": "magic"},
        {"quant_method": "gptq", "bits": 3},
        {"quant_method": "modelopt", "quant_algo": "W3"},
        {"quant_method": "compressed-tensors", "config_groups": {}},
    ],
)
def test_unknown_ways_to_store_weights_are_refused_with_the_choices(
    quantization: dict[str, Any],
) -> None:
    with pytest.raises(PredictorError, match="nvfp4"):
        weights_of({"quantization_config": quantization})


def test_a_deployment_survives_json() -> None:
    whole = deployment("deepseek-v3", tensor_parallel=8, expert_parallel=True, kv_cache="fp8")
    assert Deployment.from_json(whole.to_json()) == whole


@pytest.mark.parametrize(
    "changes", [{"tensor_parallel": 0}, {"pipeline_rank": 1}, {"data_parallel": -1}]
)
def test_a_layout_that_is_none_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(PredictorError, match=next(iter(changes))):
        deployment(**changes)


@pytest.mark.parametrize(
    ("engine", "layers", "expected"),
    [
        ("vllm", 8, [2, 2, 2, 2]),
        ("vllm", 10, [2, 3, 3, 2]),
        ("vllm", 7, [4, 3]),
        ("vllm", 61, [20, 21, 20]),
        ("sglang", 8, [2, 2, 2, 2]),
        ("sglang", 94, [23, 23, 24, 24]),
        ("sglang", 7, [3, 4]),
    ],
)
def test_layers_are_divided_as_engines_do(engine: str, layers: int, expected: list[int]) -> None:
    stages = len(expected)
    found = [
        deployment(engine=engine, pipeline_parallel=stages, pipeline_rank=rank).stage_layers(layers)
        for rank in range(stages)
    ]
    assert found == expected


def test_layers_are_divided_as_the_engine_is_told() -> None:
    told = deployment(pipeline_parallel=2, pipeline_rank=1, layers_by_stage=(10, 22))
    assert Deployment.from_json(told.to_json()) == told
    assert told.stage_layers(32) == 22
    with pytest.raises(PredictorError, match=r"\(10, 22\) are not those of 61 layers in 2 stages"):
        told.stage_layers(61)


def test_members_are_told_of_their_hardware() -> None:
    assert hardware_of_session(hardware_environment(H100)) == H100
    with pytest.raises(PredictorError, match="--gpu"):
        hardware_of_session({})


def test_batches_are_padded_to_captured_sizes() -> None:
    assert [padded_tokens(tokens) for tokens in (1, 3, 9, 255, 257, 512)] == [
        1, 4, 16, 256, 272, 512,
    ]  # fmt: skip
    assert padded_tokens(513) == 513
    assert len(SIZES) == 51


class FakeConfig:
    """A transformers configuration."""

    def __init__(self, values: dict[str, Any]) -> None:
        self.architectures = values.get("architectures")
        self._values = values

    def to_json_string(self, *, use_diff: bool) -> str:
        assert not use_diff
        return json.dumps(self._values)


def vllm_config(**changes: Any) -> SimpleNamespace:
    """A VllmConfig of Llama-3.1-8B on one GPU."""
    config = FakeConfig(MODELS["llama-3.1-8b"])
    model: dict[str, Any] = {
        "hf_config": config,
        "hf_text_config": config,
        "quantization": None,
        "is_moe": False,
    }
    parallel: dict[str, Any] = {
        "tensor_parallel_size": 1,
        "pipeline_parallel_size": 1,
        "data_parallel_size": 1,
        "enable_expert_parallel": False,
    }
    cache: dict[str, Any] = {"cache_dtype": "auto"}
    groups = (model, parallel, cache)
    model, parallel, cache = (
        {name: changes.get(name, value) for name, value in group.items()} for group in groups
    )
    return SimpleNamespace(
        model_config=SimpleNamespace(**model),
        parallel_config=SimpleNamespace(**parallel),
        cache_config=SimpleNamespace(**cache),
        speculative_config=changes.get("speculative_config"),
        lora_config=changes.get("lora_config"),
    )


@pytest.fixture
def in_session(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in hardware_environment(H100).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(vllm_deployment, "version", lambda _: "0.24.0+cu130")


@pytest.mark.usefixtures("in_session")
def test_a_worker_of_vllm_knows_its_deployment() -> None:
    assert vllm_deployment.deployment_of(vllm_config(), 0) == deployment(
        config={k: v for k, v in MODELS["llama-3.1-8b"].items() if v is not None}
    )


@pytest.mark.usefixtures("in_session")
@pytest.mark.parametrize(
    ("said", "understood"),
    [
        ({"cache_dtype": "fp8_e4m3"}, {"kv_cache": "fp8"}),
        ({"cache_dtype": "turboquant_k8v4"}, {"kv_cache": "turboquant_k8v4"}),
        ({"quantization": "fp8"}, {"weights": "fp8"}),
        ({"quantization": "fp8_per_block"}, {"weights": "fp8_block"}),
        ({"quantization": "experts_int8"}, {"weights": "experts_int8"}),
        ({"quantization": "int8_per_channel_weight_only"}, {"weights": "experts_int8"}),
        ({"quantization": "mxfp4"}, {"weights": "online_mxfp4"}),
        ({"data_parallel_size": 4}, {"data_parallel": 1}),
        ({"data_parallel_size": 4, "is_moe": True}, {"data_parallel": 4}),
        ({"tensor_parallel_size": 8}, {"tensor_parallel": 8}),
        ({}, {"lora_rank": None}),
        ({"lora_config": SimpleNamespace(max_lora_rank=64)}, {"lora_rank": 64}),
    ],
)
def test_what_vllm_calls_it(said: dict[str, Any], understood: dict[str, Any]) -> None:
    found = vllm_deployment.deployment_of(vllm_config(**said), 0)
    assert {name: getattr(found, name) for name in understood} == understood


@pytest.mark.usefixtures("in_session")
def test_a_worker_knows_the_layers_that_its_stage_was_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_PP_LAYER_PARTITION", "10,22")
    said = vllm_config(pipeline_parallel_size=2)
    assert vllm_deployment.deployment_of(said, 1).stage_layers(32) == 22
    monkeypatch.setenv("VLLM_PP_LAYER_PARTITION", "half")
    with pytest.raises(PredictorError, match="VLLM_PP_LAYER_PARTITION='half'"):
        vllm_deployment.deployment_of(said, 1)


@pytest.mark.usefixtures("in_session")
@pytest.mark.parametrize(
    ("backend", "kernels", "warns"),
    [
        ("auto", None, False),
        ("marlin", "marlin", False),
        ("flashinfer_trtllm_afp8", "flashinfer_trtllm_afp8", False),
        ("flashinfer_cutlass", None, True),
    ],
)
def test_kernels_of_experts_that_are_not_priced_are_warned_of(
    caplog: pytest.LogCaptureFixture, backend: str, kernels: str | None, warns: bool
) -> None:
    said = vllm_config(is_moe=True)
    said.kernel_config = SimpleNamespace(moe_backend=backend)
    assert vllm_deployment.deployment_of(said, 0).expert_kernels == kernels
    assert (f"--moe-backend {backend}" in caplog.text) is warns


@pytest.mark.usefixtures("in_session")
def test_vllms_own_name_for_a_models_quantisation_is_understood() -> None:
    quantised = {"quantization_config": {"quant_method": "gpt_oss_mxfp4"}}
    config = FakeConfig(MODELS["gpt-oss-120b"] | quantised)
    said = vllm_config(hf_config=config, hf_text_config=config, quantization="gpt_oss_mxfp4")
    found = vllm_deployment.deployment_of(said, 0)
    assert found.config["quantization_config"]["quant_method"] == "mxfp4"
    assert found.weights is None


@pytest.mark.usefixtures("in_session")
def test_the_checkpoints_own_quantisation_goes_before_its_name() -> None:
    config = FakeConfig(MODELS["qwen3-8b"] | {"quantization_config": {"quant_method": "fp8"}})
    said = vllm_config(
        hf_config=config, quantization="fp8", hf_text_config=FakeConfig(MODELS["qwen3-8b"])
    )
    found = vllm_deployment.deployment_of(said, 0)
    assert found.weights is None
    assert weights_of(found.config).dense.name == "fp8"


# Between points

POINTS = st.lists(st.integers(1, 10**6), min_size=2, max_size=20, unique=True).map(sorted)


@UNHURRIED
@given(POINTS, st.data())
def test_a_curve_goes_through_its_points_and_stays_between_them(
    xs: list[int], data: st.DataObject
) -> None:
    ys = data.draw(st.lists(st.integers(0, 10**9), min_size=len(xs), max_size=len(xs)))
    curve = Curve(xs, ys)
    assert [curve.at(x) for x in xs] == pytest.approx(ys, abs=1e-3)
    x = data.draw(st.integers(xs[0], xs[-1]))
    piece, along = position(xs, x)
    ends = sorted(ys[piece : piece + 2])
    assert ends[0] - 1e-3 <= curve.at(x) <= ends[1] + 1e-3
    assert curve.at(x) == pytest.approx(
        blend(ys[piece : piece + 1], ys[piece + 1 : piece + 2], along)[0], abs=1e-3
    )


def test_a_curve_goes_on_beyond_its_ends() -> None:
    curve = Curve([1, 2, 4], [10, 20, 30])
    assert (curve.at(0), curve.at(6)) == (0, 40)
    assert curve.total([1, 4, 6]) == 80


@pytest.mark.parametrize(
    ("xs", "ys"), [([1], [1]), ([2, 1], [1, 1]), ([1, 1], [1, 1]), ([1, 2], [1])]
)
def test_what_is_no_curve_is_refused(xs: list[int], ys: list[int]) -> None:
    with pytest.raises(PredictorError):
        Curve(xs, ys)


# What every predictor keeps to

BATCHES = st.lists(
    st.one_of(
        st.builds(RequestStep, st.just(1), st.integers(0, 100_000), st.just(False)),
        st.builds(RequestStep, st.integers(1, 4096), st.integers(0, 30_000), st.just(True)),
    ),
    min_size=1,
    max_size=40,
).map(lambda steps: Batch(tuple(steps), padded_tokens(sum(step.new_tokens for step in steps))))

ALL: dict[str, Explaining] = {
    "constant": Constant(5_000_000),
    "adjusted": Adjusted(Constant(5_000_000), scale=1.5, host_ns=2_000_000),
    "prefills apart": predictor_of("analytic:scale=0.9,prefill_scale=1.3,host=1ms", deployment()),
}
ALL |= {f"analytic {name}": predictor_of("analytic", deployment(name)) for name in MODELS}


# Its whole and its decodes alone both round up, which an explanation has to follow.
_TWO_ROUNDINGS = Batch((RequestStep(1, 1, False), RequestStep(213, 635, True)), padded_tokens(214))


@pytest.mark.parametrize("name", ALL)
@UNHURRIED
@given(batch=BATCHES)
@example(batch=_TWO_ROUNDINGS)
def test_answers_are_positive_repeatable_and_explained(name: str, batch: Batch) -> None:
    predictor = ALL[name]
    prediction = predictor.predict(batch)
    assert isinstance(prediction.duration_ns, int)
    assert prediction.duration_ns > 0
    assert predictor.predict(batch) == prediction
    explained = sum(row.duration_ns for row in predictor.explain(batch))
    assert explained == pytest.approx(prediction.duration_ns, abs=2)


class FakeCosts:
    """The same time for each part."""

    provenance = Provenance.ANALYTIC

    def __init__(self, part_ns: float = 1.0, objection: str | None = None) -> None:
        self._part_ns = part_ns
        self._objection = objection

    def tokens(
        self,
        tokens: int,  # noqa: ARG002
        *,
        has_prefill: bool,  # noqa: ARG002
        shared_tokens: int | None = None,  # noqa: ARG002
    ) -> list[OperatorTime]:
        return [OperatorTime("tokens", self._part_ns, "")]

    def logits(self, requests: int) -> list[OperatorTime]:  # noqa: ARG002
        return [OperatorTime("logits", self._part_ns, "")]

    def prefill_attention(self, prefills: Sequence[Prefill]) -> list[OperatorTime]:
        return [OperatorTime("prefill", self._part_ns * len(prefills), "")]

    def decode_attention(self, contexts: Sequence[int]) -> list[OperatorTime]:
        return [OperatorTime("decode", self._part_ns * len(contexts), "")]

    def outside(self, *_step: object, **_more: object) -> str | None:
        return self._objection


@pytest.mark.parametrize("part_ns", [math.nan, math.inf, 0.0, -1.0])
def test_what_is_no_duration_is_never_passed_on(part_ns: float) -> None:
    with pytest.raises(PredictorError, match="ns came out"):
        Composed(FakeCosts(part_ns)).predict(decodes(2, 10))


def test_a_step_is_the_sum_of_its_parts() -> None:
    mixed = Batch((RequestStep(1, 5, False), RequestStep(1, 9, False), RequestStep(8, 0, True)), 16)
    assert ns(Composed(FakeCosts()), mixed) == 5


@pytest.mark.parametrize("batch", [Batch((), 0), Batch((RequestStep(8, 0, True),), 4)])
def test_a_batch_that_is_none_is_refused(batch: Batch) -> None:
    with pytest.raises(PredictorError):
        Composed(FakeCosts()).predict(batch)


def test_guesses_are_marked_and_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    predictor = Warned(Composed(FakeCosts(objection="too long")))
    for _ in range(3):
        predicted = predictor.predict(decodes(1, 10))
        assert (predicted.provenance, predicted.outside) == (Provenance.EXTRAPOLATED, "too long")
    assert caplog.text.count("too long") == 1


def test_sizes_that_were_met_before_are_looked_up() -> None:
    predictor = Composed(FakeCosts())
    for context in range(10, 20):
        predictor.predict(decodes(4, context))
    assert predictor.lookups == Lookups(hits=9, misses=1)


# Specs


def test_scale_and_host_come_on_top() -> None:
    plain = predictor_of("analytic", deployment())
    fitted = predictor_of("analytic:scale=1.05,host=2ms", deployment())
    batch = decodes(8, 1000)
    assert ns(fitted, batch) == math.ceil(ns(plain, batch) * 1.05) + 2_000_000
    assert [row.name for row in fitted.explain(batch)][-2:] == ["scale", "host"]


def test_what_prefills_add_has_a_scale_of_its_own() -> None:
    plain = predictor_of("analytic", deployment())
    fitted = predictor_of("analytic:scale=0.9,prefill_scale=1.3,host=2ms", deployment())
    few, alone = decodes(8, 1000), prefill(2_000)
    both = Batch((*few.requests, *alone.requests), 2_008)
    added_ns = ns(plain, both) - ns(plain, few)
    assert added_ns > ns(plain, few)
    assert ns(fitted, few) == math.ceil(0.9 * ns(plain, few)) + 2_000_000
    assert ns(fitted, alone) == pytest.approx(1.3 * ns(plain, alone) + 2_000_000, abs=1)
    expected_ns = 0.9 * ns(plain, few) + 1.3 * added_ns + 2_000_000
    assert ns(fitted, both) == pytest.approx(expected_ns, abs=1)
    rows = fitted.explain(both)
    assert [row.name for row in rows][-3:] == ["scale", "prefill scale", "host"]
    assert sum(row.duration_ns for row in rows) == pytest.approx(ns(fitted, both), abs=2)


def test_decodes_alone_run_as_an_engine_runs_them() -> None:
    requests = (*decodes(5, 1000).requests, RequestStep(2_000, 0, True))
    batch = Batch(requests, 2_005, launch=Launch.COMPILED, shared_tokens=2_005 + 64)
    alone = decodes_alone(batch)
    assert alone == Batch(requests[:5], 8, launch=Launch.GRAPH, shared_tokens=8 + 64)
    assert decodes_alone(Batch(requests[5:], 2_000)) is None
    eager_batch = batch._replace(launch=Launch.EAGER, shared_tokens=None)
    assert decodes_alone(eager_batch) == Batch(requests[:5], 5, launch=Launch.EAGER)


def test_whole_batches_have_no_part_that_prefills_add() -> None:
    assert knows_prefills("learned:file")
    assert not knows_prefills("constant:10ms")
    assert not knows_prefills("replay:folder")
    with pytest.raises(PredictorError, match="replay does not know a step without its prefills"):
        read_spec("replay:folder,prefill_scale=1.1")


def eagerly(batch: Batch) -> Batch:
    return batch._replace(launch=Launch.EAGER)


@pytest.mark.parametrize(
    ("model", "changes", "expected"),
    [
        # The table of predictors/eager.py, as far as those models come with warpserve.
        ("deepseek-v3", {"tensor_parallel": 8}, 58 * 39 + 3 * 23),
        ("qwen3-235b-a22b", {"tensor_parallel": 8}, 94 * 24),
        ("gpt-oss-120b", {"tensor_parallel": 8}, 36 * 13),
        ("qwen3-14b", {"weights": "int4"}, 40 * 12),
        ("llama-3.1-8b", {}, 32 * 10),
        ("llama-3.1-8b", {"tensor_parallel": 2, "weights": "fp8"}, 32 * 16),
        ("llama-3.1-8b", {"pipeline_parallel": 4, "pipeline_rank": 1}, 8 * 10),
    ],
)
def test_kernels_are_counted_as_engines_launch_them(
    model: str, changes: dict[str, Any], expected: int
) -> None:
    assert launches(deployment(model, **changes)) == expected


@pytest.mark.parametrize("kind", ["analytic", "aiconfigurator"])
def test_eager_steps_take_no_less_than_their_launches(kind: str) -> None:
    predictor = predictor_of(kind, deployment())
    few, many = decodes(1, 100), prefill(8_000)
    launched = predictor.predict(eagerly(few))
    assert launched.duration_ns == 32 * 10 * 50_000 > ns(predictor, few)
    assert launched.provenance is Provenance.ANALYTIC
    assert predictor.predict(eagerly(many)) == predictor.predict(many)
    rows = predictor.explain(eagerly(few))
    assert rows[-1].name == "waiting for launches"
    assert sum(row.duration_ns for row in rows) == pytest.approx(launched.duration_ns)
    assert predictor.explain(eagerly(many)) == predictor.explain(many)


def test_a_fit_scales_the_gpu_and_not_the_host() -> None:
    predictor = predictor_of("analytic:scale=1.5,host=2ms,launch_host=30us", deployment())
    plain, few = predictor_of("analytic", deployment()), decodes(1, 100)
    assert ns(predictor, few) == math.ceil(ns(plain, few) * 1.5) + 2_000_000
    assert ns(predictor, eagerly(few)) == max(
        math.ceil(ns(plain, few) * 1.5) + 2_000_000, 32 * 10 * 30_000 + 2_000_000
    )
    free = predictor_of("analytic:launch_host=0ms", deployment())
    assert free.predict(eagerly(few)) == plain.predict(few)


def test_a_drafter_is_launched_too() -> None:
    target, small = deployment("llama-3.1-70b", tensor_parallel=8), deployment()
    drafted = predictor_of("analytic", replace(target, drafter=Drafter(small, 3)))
    assert ns(drafted, eagerly(decodes(1, 100))) == (80 * 12 + 3 * 32 * 10) * 50_000


@pytest.mark.parametrize(
    "spec",
    [
        "analytic:scale",
        "analytic:scale=",
        "analytic:scale=fast",
        "analytic:prefill_scale=",
        "analytic:host=2",
        "analytic:host=-2ms",
        "analytic:speed=2",
        "analytic:launch_host=50",
        "analytic:strict=1",
        "aiconfigurator:scale=1,",
    ],
)
def test_specs_that_say_nothing_are_refused_before_a_session(spec: str) -> None:
    with pytest.raises(PredictorError):
        read_spec(spec)


def test_strict_predictors_guess_nothing() -> None:
    strict = Strict(Composed(FakeCosts(objection="too long")))
    said = "4 requests, 4 new tokens and 400 tokens of context is extrapolated: too long"
    with pytest.raises(PredictorError, match=said):
        strict.predict(decodes(4, 100))
    assert ns(Strict(Composed(FakeCosts())), decodes(4, 100)) == 6
    assert isinstance(predictor_of("analytic:host=1ms,strict", deployment()), Strict)


@pytest.mark.parametrize("name", ["scale", "prefill_scale"])
@pytest.mark.parametrize("scale", ["0", "-1", "nan", "inf"])
def test_a_scale_is_a_number_above_0(name: str, scale: str) -> None:
    with pytest.raises(PredictorError, match=f"^{name} is a number above 0"):
        check_spec(f"analytic:{name}={scale}", None)


def test_predictors_load_without_any_package() -> None:
    """As in an engine's process: no site-packages but the engine's own."""
    code = "import warpserve.predictors.spec as spec; print(spec.read_spec('analytic'))"
    subprocess.run(
        [sys.executable, "-S", "-c", code], check=True, cwd=ROOT, env={"PYTHONPATH": str(ROOT)}
    )


# Analytic


@UNHURRIED
@given(st.integers(1, 50), st.integers(0, 100), st.one_of(st.none(), st.integers(1, 120)))
def test_pairs_are_those_that_a_mask_leaves(new: int, cached: int, window: int | None) -> None:
    positions = range(cached + 1, cached + new + 1)
    counted = sum(position if window is None else min(position, window) for position in positions)
    assert visible_pairs(new, cached, window) == counted


@pytest.mark.parametrize("name", MODELS)
def test_no_decode_beats_the_memory_nor_a_prefill_the_cores(name: str) -> None:
    predictor = predictor_of("analytic", deployment(name))
    shape, weights = model_shape(MODELS[name]), weights_of(MODELS[name])
    experts = shape.experts
    active = parameters_of(
        shape
        if experts is None
        else replace(shape, experts=replace(experts, count=experts.per_token))
    )
    smallest = min(weights.dense.bytes_per_weight, weights.experts.bytes_per_weight)
    matrices = active - 2 * shape.vocabulary * shape.hidden
    weights_ns = matrices * smallest / H100.memory_bandwidth_bytes_per_s * 1e9
    assert ns(predictor, decodes(1, 1)) > weights_ns
    compute_ns = 2 * 4096 * matrices / H100.flops["fp8"] * 1e9
    assert ns(predictor, prefill(4096)) > compute_ns


@pytest.mark.parametrize("name", MODELS)
def test_more_work_takes_longer(name: str) -> None:
    predictor = predictor_of("analytic", deployment(name))
    for batches in (
        [decodes(count, 1000) for count in (1, 8, 64, 256)],
        [decodes(16, context) for context in (100, 1_000, 10_000, 100_000)],
        [prefill(new) for new in (16, 512, 4096, 32768)],
        [prefill(512, cached) for cached in (0, 4096, 65536)],
    ):
        durations = [ns(predictor, batch) for batch in batches]
        assert durations == sorted(durations)
        assert durations[0] < durations[-1]


def sampling_ns(count: int, sampling: Sampling = Sampling.GREEDY, **changes: Any) -> float:
    batch = decodes(count, 100)._replace(sampling=sampling)
    rows = predictor_of("analytic", deployment(**changes)).explain(batch)
    return sum(row.duration_ns for row in rows if row.name == "sampling")


def test_sampling_looks_at_each_logit() -> None:
    logits_bytes = 64 * 128_256 * (2 + 4 + 4)
    least_ns = logits_bytes / H100.memory_bandwidth_bytes_per_s * 1e9
    assert least_ns < sampling_ns(64) < 2 * least_ns
    assert sampling_ns(64) == sampling_ns(64, tensor_parallel=8), "each rank has all logits"
    assert sampling_ns(64, pipeline_parallel=2, pipeline_rank=0) == 0
    assert sampling_ns(64, pipeline_parallel=2, pipeline_rank=1) == sampling_ns(64)


@pytest.mark.parametrize(
    ("engine", "version"),
    [("vllm", "0.19.0"), ("vllm", "0.24.0"), ("vllm", "0.33.0"), ("sglang", "0.5.23")],
)
def test_what_is_drawn_costs_more_passes_and_a_filter_more_still(engine: str, version: str) -> None:
    costs = [sampling_ns(64, each, engine=engine, engine_version=version) for each in Sampling]
    assert costs == sorted(costs)
    assert costs[0] < costs[-1] < 10 * costs[0]


def test_vllm_once_sorted_the_logits() -> None:
    """31 us for each of some rows of 151,936 logits, and more for each of many."""

    def sorted_ns(count: int) -> float:
        vllm = {"model": "qwen3-32b", "engine_version": "0.12.0"}
        return sampling_ns(count, Sampling.FILTERED, **vllm) - sampling_ns(
            count, Sampling.RANDOM, **vllm
        )

    assert sorted_ns(64) - sorted_ns(32) == pytest.approx(32 * 31_000, rel=0.02)
    assert sorted_ns(128) > 1.3 * 2 * sorted_ns(64)
    for version, sorting in (("0.16.0", True), ("0.17.0", False), ("0.24.0", False)):
        few, many = (
            sampling_ns(count, Sampling.FILTERED, engine_version=version) for count in (32, 64)
        )
        assert (many - few > 500_000) == sorting


def test_a_step_takes_as_long_as_its_way_of_sampling() -> None:
    predictor = predictor_of("analytic", deployment())
    durations = [ns(predictor, decodes(64, 100)._replace(sampling=each)) for each in Sampling]
    assert durations == sorted(durations)
    more_ns = sampling_ns(64, Sampling.FILTERED) - sampling_ns(64)
    assert durations[-1] - durations[0] == pytest.approx(more_ns, abs=2)


def adapters_ns(batch: Batch, **changes: Any) -> float:
    rows = predictor_of("analytic", deployment(**{"lora_rank": 16} | changes)).explain(batch)
    return sum(row.duration_ns for row in rows if row.name == "adapters")


def test_adapters_take_a_launch_for_each_of_their_kernels() -> None:
    """With few tokens that is nearly all: 3 kernels at 4 matrices of 32 layers, 2.5 us each."""
    few = decodes(16, 100)._replace(loras=2)
    assert adapters_ns(few) == pytest.approx(3 * 4 * 32 * 2_500, rel=0.2)
    assert adapters_ns(few, engine="sglang", engine_version="0.5.23") < adapters_ns(few)
    assert adapters_ns(few._replace(loras=0)) == 0
    assert adapters_ns(few, lora_rank=None) == 0
    assert adapters_ns(few, pipeline_parallel=2) == pytest.approx(adapters_ns(few) / 2)


def test_adapters_take_more_with_more_tokens_a_larger_rank_and_more_of_them() -> None:
    many = prefill(8192)._replace(loras=1)
    assert adapters_ns(many) > 5 * adapters_ns(prefill(16)._replace(loras=1))
    assert adapters_ns(many, lora_rank=256) > adapters_ns(many)
    assert adapters_ns(many._replace(loras=64)) > adapters_ns(many)
    assert adapters_ns(many, tensor_parallel=4) < adapters_ns(many)


def test_a_step_takes_its_adapters_time() -> None:
    predictor = predictor_of("analytic", deployment(lora_rank=16))
    plain = decodes(16, 100)
    more_ns = ns(predictor, plain._replace(loras=2)) - ns(predictor, plain)
    assert more_ns == pytest.approx(adapters_ns(plain._replace(loras=2)), abs=2)


def test_a_version_that_is_none_is_named() -> None:
    with pytest.raises(PredictorError, match="engine_version 'main' is no version"):
        predictor_of("analytic", deployment(engine_version="main"))


def test_each_request_costs_what_it_costs() -> None:
    """One long context among short ones costs no less than its share of all long ones."""
    predictor = predictor_of("analytic", deployment())
    short, long = RequestStep(1, 100, False), RequestStep(1, 50_000, False)
    mixed = ns(predictor, Batch((short, short, short, long), 4))
    all_short, all_long = (ns(predictor, Batch((each,) * 4, 4)) for each in (short, long))
    assert mixed == pytest.approx((3 * all_short + all_long) / 4, rel=0.02)


def test_a_window_bounds_what_context_costs() -> None:
    gemma = predictor_of("analytic", deployment("gemma-3-27b"))
    full = MODELS["gemma-3-27b"] | {"sliding_window": None}
    unbounded = predictor_of("analytic", deployment(config=full))
    assert ns(gemma, decodes(8, 1000)) == ns(unbounded, decodes(8, 1000))
    assert ns(gemma, decodes(8, 50_000)) < 0.6 * ns(unbounded, decodes(8, 50_000))


@pytest.mark.parametrize(
    ("gpu", "model", "is_longer"),
    [
        ("h100-sxm", "llama-3.1-8b", False),
        ("rtx-4090", "llama-3.1-8b", True),
        ("l40s", "qwen3-32b", True),
        ("b200", "qwen3-32b", False),
        ("rtx-pro-6000", "deepseek-v3", False),
    ],
)
def test_decodes_beside_prefills_lose_their_tiles(gpu: str, model: str, is_longer: bool) -> None:
    predictor = predictor_of("analytic", deployment(model, hardware=hardware_of(gpu)))
    steps, chunk = decodes(64, 4000).requests, RequestStep(16, 0, True)

    def decode_attention_ns(*requests: RequestStep) -> float:
        rows = predictor.explain(Batch(requests, 128))
        return sum(row.duration_ns for row in rows if row.name == "decode attention")

    ratio = decode_attention_ns(*steps, chunk) / decode_attention_ns(*steps)
    assert 1.3 < ratio < 9 if is_longer else ratio == 1


@pytest.mark.parametrize(
    ("gpu", "changes", "requests", "is_longer"),
    [
        ("rtx-pro-6000", {}, 64, True),
        ("rtx-pro-6000", {}, 32, False),  # few enough to divide their contexts
        ("rtx-pro-6000", {"tensor_parallel": 4}, 64, False),
        ("rtx-pro-6000", {"kv_cache": "fp8"}, 64, False),
        ("rtx-pro-6000", {"engine": "sglang"}, 64, False),
        ("h100-sxm", {}, 64, False),
        ("rtx-4090", {}, 32, True),
    ],
)
def test_the_longest_of_many_decodes_goes_on_alone(
    gpu: str, changes: dict[str, Any], requests: int, is_longer: bool
) -> None:
    predictor = predictor_of("analytic", deployment(hardware=hardware_of(gpu), **changes))
    long, short = RequestStep(1, 4_799, False), RequestStep(1, 799, False)
    rows = predictor.explain(Batch((long, *[short] * (requests - 1)), requests))
    alone_ns = sum(row.duration_ns for row in rows if row.name == "longest context")
    # 128 tokens of each layer in 2.4 us, from when one of 8 heads' share of the work is left.
    all_ns = sum(row.duration_ns for row in rows if row.name == "decode attention")
    longest_ns, mean_ns = (2_430 * 32 / 128 * tokens for tokens in (4_800, 800 + 4_000 / requests))
    expected_ns = longest_ns - all_ns / 8 - max(0, mean_ns - all_ns / 8)
    assert alone_ns == (pytest.approx(expected_ns, rel=0.01) if is_longer else 0)
    beside_prefill = Batch((long, *[short] * requests, RequestStep(64, 0, True)), 200)
    assert "longest context" not in {row.name for row in predictor.explain(beside_prefill)}
    hidden = predictor.explain(Batch((long, *[RequestStep(1, 3_999, False)] * 127), 128))
    assert "longest context" not in {row.name for row in hidden}
    drafts = Batch((RequestStep(3, 4_799, False), *[short] * requests), 80)
    assert "longest context" not in {row.name for row in predictor.explain(drafts)}


def test_geforce_multiplies_at_its_stated_rate() -> None:
    """As tests/data/llmservingsim has it: projections of 2,048 tokens at 0.99 of 165 TFLOP/s."""
    geforce = predictor_of("analytic", deployment(hardware=hardware_of("rtx-4090")))
    rows = {row.name: row.duration_ns for row in geforce.explain(prefill(2_048))}
    operations = 2 * 2_048 * 32 * 4_096 * (6_144 + 4_096)
    reached = operations / rows["attention projections"] * 1e9
    assert reached == pytest.approx(0.99 * 165.2e12, rel=0.03)


@pytest.mark.parametrize(
    ("gpu", "count", "context", "prefill_tokens", "measured_us"),
    [
        ("rtx-4090", 32, 1_025, 256, 317),
        ("rtx-4090", 64, 1_025, 1_024, 693),
        ("rtx-4090", 128, 2_049, 256, 4_530),  # a head's 134 MB do not fit into 75 MB
        ("rtx-pro-6000", 32, 1_025, 256, 158),
        ("rtx-pro-6000", 64, 2_049, 1_024, 600),
        ("rtx-pro-6000", 128, 1_025, 1_024, 764),
    ],
)
def test_decodes_beside_prefills_take_what_was_measured(
    gpu: str, count: int, context: int, prefill_tokens: int, measured_us: float
) -> None:
    """In one layer of Llama-3.1-8B (tests/data/llmservingsim/profiles): without the prefill's."""
    mixed = Mixed(deployment(hardware=hardware_of(gpu)))
    found_ns = mixed.decodes_ns([(prefill_tokens, 0)], [context] * count, 0.0)
    assert found_ns / 32e3 == pytest.approx(measured_us, rel=0.15)


def test_ranks_share_the_work_and_pay_for_it() -> None:
    alone, eight = (
        predictor_of("analytic", deployment("llama-3.1-70b", tensor_parallel=ranks))
        for ranks in (1, 8)
    )
    assert ns(alone, prefill(8192)) / 8 < ns(eight, prefill(8192)) < ns(alone, prefill(8192)) / 4
    assert "all-reduce" in {row.name for row in eight.explain(prefill(8192))}


def test_stages_add_up_to_the_model() -> None:
    def stage(rank: int) -> Explaining:
        changes = {"pipeline_parallel": 4, "pipeline_rank": rank}
        return predictor_of("analytic", deployment("llama-3.1-70b", **changes))

    batch = decodes(32, 1000)
    whole = ns(predictor_of("analytic", deployment("llama-3.1-70b")), batch)
    assert sum(ns(stage(rank), batch) for rank in range(4)) == pytest.approx(whole, rel=0.001)


def test_smaller_weights_and_caches_are_read_faster() -> None:
    by_format = {
        name: ns(predictor_of("analytic", deployment(weights=name)), decodes(1, 10))
        for name in ("bf16", "fp8", "int4")
    }
    assert by_format["int4"] < by_format["fp8"] < by_format["bf16"]
    bf16, fp8 = (predictor_of("analytic", deployment(kv_cache=kind)) for kind in ("bf16", "fp8"))
    assert ns(fp8, decodes(64, 8000)) < ns(bf16, decodes(64, 8000))


def test_links_make_the_difference_between_boxes() -> None:
    message_bytes = 64e6
    nvlink, pairs, pcie = (
        hardware_of(spec) for spec in ("h100-sxm:8", "h100-pcie:2@pcie-nvlink-pairs", "l40s:4")
    )
    assert all_reduce_ns(nvlink, 1, message_bytes) == 0
    assert all_reduce_ns(nvlink, 8, message_bytes) < all_reduce_ns(pcie, 8, message_bytes) / 3
    assert all_reduce_ns(pairs, 2, message_bytes) < all_reduce_ns(pairs, 4, message_bytes) / 3


MESSAGES_BYTES = (8 * 1024, 2**20, 64 * 2**20)
PCIE_TABLE = re.compile(r"\| (\d) (?:x (?P<gpu>[\w ]+), (?P<way>.+?) )?\|.*")
BOXES = {"peers": "pcie-8", "by the host": "pcie-8-host"}


def test_collectives_over_pcie_are_near_measured_ones() -> None:
    """Of the table in collectives.py; a cell without a name is as the one above."""
    assert collectives.__doc__
    lines = [line for line in collectives.__doc__.splitlines() if re.match(r"\| \d", line)]
    gpu = box = ""
    for line in lines:
        found = PCIE_TABLE.fullmatch(line)
        assert found
        if found["gpu"]:
            gpu, box = found["gpu"].lower().replace(" ", "-"), BOXES[found["way"]]
        hardware = hardware_of(f"{gpu}:{found[1]}@{box}")
        cells = [float(cell.replace(",", "")) for cell in line.strip("| ").split("|")[2:]]
        for size, measured_us, here_us in zip(MESSAGES_BYTES, cells[::2], cells[1::2], strict=True):
            formula_us = all_reduce_ns(hardware, int(found[1]), size) / 1e3
            assert formula_us == pytest.approx(here_us, rel=0.02)
            assert formula_us == pytest.approx(measured_us, rel=0.35)
    assert len(lines) == 5


@pytest.mark.parametrize(("cards", "measured_us"), [(2, 6.2), (4, 9.8), (8, 15.3)])
def test_a_ring_gathers_in_half_the_steps(cards: int, measured_us: float) -> None:
    """``measured_us``: NCCL's all-gather of 8 KB in aiconfigurator-core's tables."""
    reached, by_host = (hardware_of(f"rtx-pro-6000:{cards}@{box}") for box in BOXES.values())
    assert gather_ns(reached, cards, 8 * 1024) / 1e3 == pytest.approx(measured_us, rel=0.2)
    for size in MESSAGES_BYTES:
        assert gather_ns(by_host, cards, size) < 0.65 * all_reduce_ns(by_host, cards, size)


def test_without_peers_all_goes_through_the_host() -> None:
    reached, by_host = (hardware_of(f"l4:2@{box}") for box in BOXES.values())
    alone = hardware_of("l4@pcie-8-host")
    assert not any(hardware.go_through_host(1) for hardware in (reached, by_host, alone))
    assert by_host.go_through_host(2)
    assert not reached.go_through_host(2)
    assert not hardware_of("h100-pcie:2@pcie-nvlink-pairs").go_through_host(2)
    rows = {
        row.source
        for hardware in (reached, by_host)
        for row in predictor_of(
            "analytic", deployment(tensor_parallel=2, hardware=hardware)
        ).explain(decodes(1, 10))
        if row.name == "all-reduce"
    }
    assert rows == {"ring", "ring through the host"}


@pytest.mark.parametrize("kind", ["analytic", "aiconfigurator"])
def test_experts_see_the_tokens_of_all_replicas(kind: str) -> None:
    """A prompt beside seven ranks that decode; all else is each rank's own."""
    shared = deployment(
        "qwen3-30b-a3b", data_parallel=8, expert_parallel=True, hardware=hardware_of("h100-sxm:8")
    )
    predictor = predictor_of(kind, shared)
    batch = prefill(4_096)
    alike, beside = (
        {row.name: row.duration_ns for row in predictor.explain(each)}
        for each in (batch, batch._replace(shared_tokens=4_096 + 7 * 32))
    )
    assert alike == {
        row.name: row.duration_ns
        for row in predictor.explain(batch._replace(shared_tokens=8 * 4_096))
    }
    of_all = {"experts", "gather and scatter", "moe", "moe_pre_dispatch", "moe_post_dispatch"}
    of_all &= alike.keys()
    assert len(of_all) >= 2
    for name, duration_ns in beside.items():
        if name in of_all:
            assert duration_ns < 0.35 * alike[name]
        else:
            assert duration_ns == alike[name]
    assert ns(predictor, batch._replace(shared_tokens=4_320)) < 0.7 * ns(predictor, batch)


def test_tokens_are_sent_to_the_ranks_of_their_experts() -> None:
    """Eight ranks, each with attention of its own: a token of a prompt goes to the others that have
    one of its eight experts, in fp8, and comes back in bf16; one that decodes, to each expert.
    """
    sent = deployment(
        "deepseek-v3",
        tensor_parallel=1,
        data_parallel=8,
        expert_parallel=True,
        expert_dispatch="deepep",
        hardware=H100,
    )
    tokens, hidden, layers = 4_096, 7_168, 58
    bytes_per_ns = H100.link_bandwidth_bytes_per_s(8) * 0.75 / 1e9
    ranks_hit, experts_hit = 7 * (1 - (7 / 8) ** 8), 8 * 7 / 8
    for batch, copies in ((prefill(tokens), ranks_hit), (decodes(tokens, 1), experts_hit)):
        rows = {row.name: row.duration_ns for row in predictor_of("analytic", sent).explain(batch)}
        moved_ns = tokens * copies * hidden * (1 + 2) / bytes_per_ns
        expected_ns = layers * (2 * 6_500 + moved_ns)
        assert rows["dispatch and combine"] == pytest.approx(expected_ns, rel=1e-6)
        assert "all-reduce" not in rows
    with pytest.raises(PredictorError, match="use analytic"):
        predictor_of("aiconfigurator", sent)


@pytest.mark.parametrize("kind", ["aiconfigurator", "analytic"])
def test_marlins_experts_take_longer_where_tensor_cores_are_the_limit(kind: str) -> None:
    own = deployment("gpt-oss-120b", tensor_parallel=1, hardware=H100)
    marlins = replace(own, expert_kernels="marlin")
    few, many = decodes(4, 1_000), prefill(8_192)

    def experts_ns(batch: Batch, of: Deployment) -> float:
        rows = predictor_of(kind, of).explain(batch)
        return sum(row.duration_ns for row in rows if row.name in ("moe", "experts"))

    operations = 2 * 3 * 2_880 * 2_880 * 4 * 8_192 * 36
    tflops = operations / experts_ns(many, marlins) / 1e3
    assert tflops == pytest.approx(200, rel=0.05)
    assert experts_ns(few, marlins) == pytest.approx(experts_ns(few, own), rel=0.03)
    bf16 = deployment("qwen3-30b-a3b", tensor_parallel=1, hardware=H100)
    asked = replace(bf16, expert_kernels="marlin")
    assert experts_ns(many, asked) == experts_ns(many, bf16)


@pytest.mark.parametrize("kind", ["aiconfigurator", "analytic"])
def test_experts_with_fp8_activations_are_faster_on_large_blackwells(kind: str) -> None:
    """SGLang's own choice, and vLLM's when asked."""

    def experts_ns(kernels: str | None, engine: str = "vllm", gpu: str = "b200") -> float:
        of = deployment("gpt-oss-120b", tensor_parallel=1, hardware=hardware_of(gpu))
        asked = replace(of, engine=engine, engine_version="0.24.0", expert_kernels=kernels)
        rows = predictor_of(kind, asked).explain(prefill(8_192))
        return sum(row.duration_ns for row in rows if row.name in ("moe", "experts"))

    in_bf16, in_fp8 = experts_ns(None), experts_ns("flashinfer_trtllm_afp8")
    assert in_fp8 < 0.6 * in_bf16
    assert experts_ns("flashinfer_trtllm") == in_bf16
    assert experts_ns(None, "sglang") == pytest.approx(in_fp8, rel=1e-6)
    assert experts_ns("flashinfer_trtllm", "sglang") == pytest.approx(in_bf16, rel=0.02)
    on_hopper = {
        experts_ns(kernels, gpu="h100-sxm") for kernels in (None, "flashinfer_trtllm_afp8")
    }
    assert len(on_hopper) == 1


@pytest.mark.parametrize(
    ("model", "changes", "named"),
    [
        ("qwen3-14b", {"tensor_parallel": 3}, "num_attention_heads 40"),
        ("qwen3-30b-a3b", {"tensor_parallel": 32}, "moe_intermediate_size"),
        (
            "deepseek-v3",
            {"tensor_parallel": 1, "data_parallel": 3, "expert_parallel": True},
            "number of experts 256",
        ),
        ("llama-3.1-8b", {"kv_cache": "fp3"}, "kv_cache"),
        ("qwen3-30b-a3b", {"expert_dispatch": "pigeon"}, "expert_dispatch 'pigeon'"),
        ("gpt-oss-120b", {"expert_kernels": "merlin"}, "expert_kernels 'merlin'"),
        ("llama-3.1-8b", {"lora_rank": 0}, "lora_rank is 1 or more"),
        ("llama-3.1-8b", {"weights": "fp3"}, "fp3"),
        ("llama-3.1-8b", {"pipeline_parallel": 64}, "32 layers"),
    ],
)
def test_what_does_not_fit_is_named(model: str, changes: dict[str, Any], named: str) -> None:
    changes = {"tensor_parallel": 1} | changes
    if changes["tensor_parallel"] == 32:
        changes["config"] = MODELS[model] | {"moe_intermediate_size": 760}
    with pytest.raises(PredictorError, match=named):
        predictor_of("analytic", deployment(model, **changes))


def test_a_gpu_that_does_not_exist_can_be_asked_about() -> None:
    twice = replace(H100, memory_bandwidth_bytes_per_s=2 * H100.memory_bandwidth_bytes_per_s)
    ratio = ns(predictor_of("analytic", deployment(hardware=twice)), decodes(1, 10)) / ns(
        predictor_of("analytic", deployment()), decodes(1, 10)
    )
    assert 0.5 < ratio < 0.7


# Drafters


def drafted(passes: int, **changes: Any) -> Explaining:
    drafter = deployment("llama-3.1-8b", tensor_parallel=8, **changes)
    whole = deployment("llama-3.1-70b", tensor_parallel=8, drafter=Drafter(drafter, passes))
    return predictor_of("analytic:scale=1.5,host=1ms", Deployment.from_json(whole.to_json()))


def test_a_drafters_passes_are_part_of_the_step() -> None:
    target = predictor_of("analytic", deployment("llama-3.1-70b", tensor_parallel=8))
    drafter = predictor_of("analytic", deployment("llama-3.1-8b", tensor_parallel=8))
    verifies = Batch((RequestStep(4, 1_000, False),) * 8, 32)
    later = Batch((RequestStep(1, 1_004, False),) * 8, 8)
    step_ns = ns(target, verifies) + ns(drafter, verifies) + 2 * ns(drafter, later)
    assert ns(drafted(3), verifies) == pytest.approx(1.5 * step_ns + 1e6, rel=1e-6)
    at_once_ns = ns(target, verifies) + ns(drafter, verifies)
    assert ns(drafted(1), verifies) == pytest.approx(1.5 * at_once_ns + 1e6, rel=1e-6)
    no_drafts_follow = verifies._replace(skips_drafts=True)
    assert ns(drafted(3), no_drafts_follow) == ns(drafted(1), verifies)
    rows = drafted(3).explain(verifies)
    assert sum(row.duration_ns for row in rows) == pytest.approx(ns(drafted(3), verifies), abs=5)
    assert "drafter: logits x 2" in {row.name for row in rows}


def test_a_guess_about_a_drafters_later_passes_is_a_guess_about_the_step() -> None:
    known, batch = Constant(5), Batch((RequestStep(4, 1_000, False),) * 6, 32)
    drafter = Replay([(batch, known.predict(batch))])
    assert Drafted(known, drafter, 1).predict(batch).provenance is Provenance.STATED
    prediction = Drafted(known, drafter, 3).predict(batch)
    assert prediction.duration_ns == 5 + 5 + 2 * 5
    assert prediction.provenance is Provenance.EXTRAPOLATED


def test_what_is_stated_of_a_step_is_all_of_it() -> None:
    whole = deployment(drafter=Drafter(deployment(), 3))
    assert ns(predictor_of("constant:10ms", whole), decodes(4, 100)) == 10_000_000


def speculating(method: str, **changes: Any) -> SimpleNamespace:
    """A SpeculativeConfig with a head of EAGLE's."""
    head = FakeConfig(MODELS["llama-3.1-8b"] | {"num_hidden_layers": 1, "draft_vocab_size": 32000})
    model = SimpleNamespace(hf_config=head, hf_text_config=head, quantization=None)
    fields: dict[str, Any] = {
        "method": method,
        "draft_model_config": model,
        "draft_parallel_config": SimpleNamespace(tensor_parallel_size=1),
        "num_speculative_tokens": 3,
        "parallel_drafting": False,
    }
    return SimpleNamespace(**fields | changes)


@pytest.mark.usefixtures("in_session")
def test_a_worker_of_vllm_knows_its_drafter(caplog: pytest.LogCaptureFixture) -> None:
    def found(method: str, **changes: Any) -> Deployment:
        speculative = speculating(method, **changes)
        return vllm_deployment.deployment_of(vllm_config(speculative_config=speculative), 0)

    eagle = found("eagle3")
    assert eagle.drafter is not None
    assert eagle.drafter.passes == 3
    assert model_shape(eagle.drafter.deployment.config).vocabulary == 32_000
    at_once = found("draft_model", parallel_drafting=True).drafter
    assert at_once is not None
    assert at_once.passes == 1
    assert found("ngram").drafter is None
    assert caplog.text == ""
    assert found("medusa").drafter is None
    assert "medusa is not known" in caplog.text


# Replay

RECORDED = [
    (decodes(4, 100), 5_000),
    (decodes(4, 1000), 7_000),
    (decodes(8, 100), 6_000),
    (prefill(512), 90_000),
]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A folder with the step log of RECORDED, as a run leaves it."""
    with (tmp_path / "steps-1.jsonl").open("w") as file:
        writer = StepLog(file)
        for batch, duration_ns in RECORDED:
            names = [str(index) for index in range(len(batch.requests))]
            writer.write(batch, names, Prediction(duration_ns, Provenance.MEASURED), 0, 1)
    return tmp_path


def test_what_was_recorded_has_its_launches_in_it(log: Path) -> None:
    with pytest.raises(PredictorError, match="launch_host"):
        read_spec(f"replay:{log},launch_host=50us")


def test_recorded_steps_take_as_long_again(log: Path) -> None:
    predictor = predictor_of(f"replay:{log}", deployment())
    for batch, duration_ns in RECORDED:
        assert predictor.predict(batch) == Prediction(duration_ns, Provenance.MEASURED)
        assert [row.duration_ns for row in predictor.explain(batch)] == [duration_ns]


def test_adapters_make_another_batch(log: Path) -> None:
    batch = RECORDED[0][0]._replace(loras=2)
    with (log / "steps-2.jsonl").open("w") as file:
        names = ["a"] * len(batch.requests)
        StepLog(file).write(batch, names, Prediction(5_800, Provenance.MEASURED), 0, 1)
    predictor = predictor_of(f"replay:{log}", deployment())
    assert (ns(predictor, batch), ns(predictor, RECORDED[0][0])) == (5_800, 5_000)


def test_each_stage_of_a_pipeline_has_its_own_steps(tmp_path: Path) -> None:
    """Ranks are counted stage by stage; two share each one's work."""
    layout: dict[str, Any] = {"tensor_parallel": 2, "pipeline_parallel": 3}
    batch = decodes(4, 100)
    for name, duration_ns in (("0-0", 5_000), ("0-2", 8_000), ("decode-1-0", 5_000)):
        with (tmp_path / f"steps-{name}.jsonl").open("w") as file:
            step = Prediction(duration_ns, Provenance.MEASURED)
            StepLog(file).write(batch, [], step, 0, 1)

    def found(rank: int) -> Prediction:
        stage = deployment(**layout, pipeline_rank=rank)
        return predictor_of(f"replay:{tmp_path}", stage).predict(batch)

    assert [found(0), found(1)] == [
        Prediction(duration_ns, Provenance.MEASURED) for duration_ns in (5_000, 8_000)
    ]
    assert found(2).provenance is Provenance.EXTRAPOLATED
    assert (found(2).outside or "").startswith("no steps of stage 2 of 3 were recorded")
    of_first = steps_of_first_stages(recorded_steps(str(tmp_path)))
    assert [step.prediction.duration_ns for step in of_first] == [5_000, 5_000]


def test_a_step_recorded_twice_takes_the_median(log: Path) -> None:
    text = (log / "steps-1.jsonl").read_text()
    (log / "steps-2.jsonl").write_text(text.replace('"duration_ns":5000', '"duration_ns":5500') * 2)
    assert ns(predictor_of(f"replay:{log}", deployment()), decodes(4, 100)) == 5_500


@pytest.mark.parametrize(
    ("batch", "duration_ns"),
    [
        (decodes(4, 300), 5_000),
        (decodes(4, 900), 7_000),
        (decodes(7, 100), 6_000),
        (decodes(200, 100), 6_000),
        (prefill(16, 4000), 90_000),
        (Batch(decodes(3, 100).requests + prefill(60).requests, 64), 90_000),
    ],
)
def test_a_step_that_was_not_recorded_takes_as_long_as_the_nearest(
    log: Path, batch: Batch, duration_ns: int
) -> None:
    predictor = replay_of(recorded_steps(str(log / "steps-1.jsonl")))
    outside = "not among the 4 batches that were recorded"
    assert predictor.predict(batch) == Prediction(duration_ns, Provenance.EXTRAPOLATED, outside)
    assert predictor.lookups == Lookups(hits=0, misses=1)
    assert predictor.explain(batch)[0].source == "the nearest that was recorded"


def test_eager_steps_are_no_measure_for_others() -> None:
    few, many = decodes(4, 100), decodes(8, 100)
    recorded = [(eagerly(few), 16_000), (few, 5_000), (eagerly(many), 17_000), (prefill(9), 9_000)]
    known = Replay([(batch, Prediction(t, Provenance.MEASURED)) for batch, t in recorded])
    assert [ns(known, batch) for batch in (few, eagerly(few))] == [5_000, 16_000]
    guesses = [many, eagerly(decodes(7, 100)), eagerly(prefill(9))]
    assert [ns(known, batch) for batch in guesses] == [5_000, 17_000, 9_000]
    assert {known.predict(batch).provenance for batch in guesses} == {Provenance.EXTRAPOLATED}


@UNHURRIED
@given(batch=BATCHES)
def test_a_replay_always_has_an_answer(batch: Batch) -> None:
    predictor = Replay([(b, Prediction(t, Provenance.MEASURED)) for b, t in RECORDED])
    assert predictor.predict(batch) == predictor.predict(batch)


@pytest.mark.parametrize(
    "line",
    [
        "{",
        "[]",
        '{"requests": [], "padded_tokens": 1}',
        '{"requests": [[1, 1]], "padded_tokens": 1, "duration_ns": 1, "provenance": "measured"}',
        '{"requests": [], "padded_tokens": 1, "duration_ns": 0, "provenance": "measured"}',
        '{"requests": [], "padded_tokens": 1, "duration_ns": NaN, "provenance": "measured"}',
        '{"requests": [], "padded_tokens": 1, "duration_ns": 1, "provenance": "dreamt"}',
        '{"requests": [], "padded_tokens": 1, "duration_ns": 1, "provenance": "measured"}',
        "\x00\udcff",
    ],
)
def test_a_corrupted_log_is_named(log: Path, line: str) -> None:
    with (log / "steps-1.jsonl").open("a", errors="surrogateescape") as file:
        file.write(line + "\n")
    with pytest.raises(PredictorError, match=r"steps-1\.jsonl, line 5"):
        read_spec(f"replay:{log}")


def test_a_log_whose_writer_was_killed_counts_but_for_its_last_line(log: Path) -> None:
    file = log / "steps-1.jsonl"
    whole = file.read_text()
    file.write_text(whole + whole.splitlines()[0][:-5])
    assert len(recorded_steps(str(file))) == len(whole.splitlines())


def test_a_log_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(PredictorError, match=str(tmp_path)):
        read_spec(f"replay:{tmp_path}")
    (tmp_path / "steps-1.jsonl").touch()
    with pytest.raises(PredictorError, match="no steps"):
        read_spec(f"replay:{tmp_path}")
    with pytest.raises(PredictorError, match="RUN/steps"):
        read_spec("replay:")


# Learned


def law_ns(batch: Batch) -> float:
    """Tokens that wait for weights at first; attention; something that is used up in the end."""
    tokens = batch.padded_tokens
    decoded = sum(step.cached_tokens + 1 for step in batch.requests if not step.is_prefill)
    pairs = sum(
        step.new_tokens * (step.cached_tokens + step.new_tokens / 2)
        for step in batch.requests
        if step.is_prefill
    )
    of_tokens = 2e3 * tokens + 3e4 * max(0, tokens - 128)
    return 5e6 + of_tokens + 1e4 * len(batch.requests) + 20 * decoded + 0.5 * min(pairs, 2e6)


def random_batches(count: int, seed: int) -> list[Batch]:
    """Decodes, prefills and both."""
    draw = random.Random(seed)

    def batch() -> Batch:
        steps = [
            RequestStep(1, draw.randrange(1, 8000), is_prefill=False)
            for _ in range(draw.choice([0, 1, 8, 64, 200]))
        ]
        if not steps or draw.random() < 0.5:
            steps.append(RequestStep(draw.randrange(1, 2000), draw.randrange(4000), True))
        return Batch(tuple(steps), padded_tokens(sum(step.new_tokens for step in steps)))

    return [batch() for _ in range(count)]


@pytest.fixture(scope="module")
def regression() -> Regression:
    pytest.importorskip("sklearn")
    return fit([(batch, round(law_ns(batch))) for batch in random_batches(600, seed=0)], "a law")


def test_a_law_is_learned(regression: Regression) -> None:
    predictor = Learned(Regression.from_json(regression.to_json()))
    for batch in random_batches(50, seed=1):
        assert ns(predictor, batch) == pytest.approx(law_ns(batch), rel=0.02)
    assert regression.any.held_out_median < 0.01
    assert regression.any.steps == 600
    assert sum(stage.steps for stage in regression.stages.values()) == 600


def test_what_is_noise_is_said_to_be(regression: Regression) -> None:
    draw = random.Random(2)
    noisy = [
        (batch, round(law_ns(batch) * draw.uniform(0.8, 1.2)))
        for batch in random_batches(600, seed=0)
    ]
    learned_from_noise = fit(noisy, "noise")
    for stage in (learned_from_noise.any, *learned_from_noise.stages.values()):
        assert 0.05 < stage.held_out_median < 0.15
        assert stage.held_out_p90 > stage.held_out_median
    predictions = [(Learned(learned_from_noise).predict(batch), took) for batch, took in noisy]
    known = [(each, took) for each, took in predictions if each.uncertainty is not None]
    within = [abs(e.duration_ns / took - 1) <= (e.uncertainty or 0) for e, took in known]
    assert sum(within) / len(within) == pytest.approx(0.9, abs=0.05)
    assert regression.any.held_out_p90 < 0.01


def test_a_line_bends_at_its_knots_and_goes_on_beyond_them() -> None:
    line = BentLine([10.0, 30.0], [[2.0, 1.0], [0.0, 1.0], [5.0, 1.0]])
    assert line.regressions == 2
    assert [line.at_ns(value) for value in (0, 5, 10, 20, 30, 40)] == [0, 10, 20, 20, 20, 70]
    sums_ns = [1.0, 1.0]
    line.add_to(sums_ns, 40)
    assert sums_ns == [71.0, 41.0]


def test_where_little_was_recorded_a_prediction_is_less_certain() -> None:
    """A thousand steps of few decodes, and some dozens of many, which took longer now and then."""
    pytest.importorskip("sklearn")
    draw = random.Random(6)
    known = [
        (batch, round(law_ns(batch) * draw.uniform(0.98, 1.02)))
        for batch in (decodes(draw.randrange(1, 32), 500) for _ in range(1_000))
    ]
    rare = [
        (batch, round(law_ns(batch) * draw.choice((1.0, 1.5))))
        for batch in (decodes(draw.randrange(200, 256), 500) for _ in range(30))
    ]
    predictor = Learned(fit(draw.sample(known + rare, len(known + rare)), "a law, now and then"))
    usual, seldom = (predictor.predict(decodes(count, 500)).uncertainty for count in (16, 230))
    assert usual is not None
    assert seldom is not None
    assert 0.01 < usual < 0.05
    assert seldom > 1.5 * usual


def test_each_kind_of_steps_is_learned_by_itself_where_there_are_enough() -> None:
    pytest.importorskip("sklearn")
    mixed = Batch(decodes(3, 500).requests + prefill(100).requests, 104)
    many = [(decodes(1 + i % 64, 100 + 17 * i), 1_000_000 + 100 * i) for i in range(200)]
    few = [(mixed, 9_000_000)] * 20
    found = fit(many + few, "two laws")
    assert set(found.stages) == {"decode"}
    predictor = Learned(found)
    assert "200 decode steps" in predictor.explain(decodes(4, 500))[0].source
    assert "220 steps of all kinds" in predictor.explain(mixed)[0].source


def test_eager_steps_are_learned_by_themselves_or_guessed() -> None:
    pytest.importorskip("sklearn")
    in_graphs = [(decodes(1 + i % 64, 100 + 17 * i), 1_000_000 + 100 * i) for i in range(200)]
    one_by_one = [(eagerly(batch), 16_000_000) for batch, _ in in_graphs]
    batch = decodes(4, 500)
    both = Learned(fit(in_graphs + one_by_one, "two laws"))
    assert ns(both, eagerly(batch)) == pytest.approx(16_000_000, rel=0.01)
    assert ns(both, batch) < 1_100_000
    one = Learned(fit(in_graphs, "a law"))
    assert one.predict(batch).provenance is Provenance.INTERPOLATED
    guess = one.predict(eagerly(batch))
    assert guess.provenance is Provenance.EXTRAPOLATED
    assert guess.outside == "eager decode steps, of which too few were learned from"


def test_learned_steps_never_get_shorter_with_more_work(regression: Regression) -> None:
    predictor = Learned(regression)
    for batches in (
        [decodes(count, 1000) for count in (1, 8, 64, 256)],
        [decodes(16, context) for context in (100, 1_000, 10_000)],
        [prefill(new) for new in (16, 512, 4096)],
        [prefill(512, cached) for cached in (0, 4096, 65536)],
    ):
        durations = [ns(predictor, batch) for batch in batches]
        assert durations == sorted(durations)


def test_steps_larger_than_what_was_learned_from_are_marked(regression: Regression) -> None:
    predictor = Learned(regression)
    assert predictor.predict(decodes(64, 1000)).provenance is Provenance.INTERPOLATED
    long = predictor.predict(decodes(64, 20_000))
    assert long.provenance is Provenance.EXTRAPOLATED
    assert long.outside is not None
    assert long.outside.startswith("context of decodes: 1,280,000, learned up to ")
    assert predictor.predict(prefill(9000)).provenance is Provenance.EXTRAPOLATED


def test_a_learned_step_is_explained(regression: Regression) -> None:
    predictor = Learned(regression)
    batch = random_batches(1, seed=3)[0]
    rows = predictor.explain(batch)
    assert sum(row.duration_ns for row in rows) == pytest.approx(ns(predictor, batch), abs=2)
    assert "steps, 9 of 10 within" in rows[0].source


def test_fit_reads_a_log_and_its_file_is_a_predictor(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    with (tmp_path / "steps-1.jsonl").open("w") as file:
        for batch in random_batches(400, seed=4):
            step = Prediction(round(law_ns(batch)), Provenance.MEASURED)
            StepLog(file).write(batch, [], step, 0, 1)
    out = tmp_path / "learned.json"
    result = CliRunner().invoke(app, ["fit", str(tmp_path), "--out", str(out)])
    assert result.exit_code == 0
    assert "400 steps" in result.stdout
    predictor = predictor_of(f"learned:{out}", deployment())
    assert ns(predictor, decodes(8, 500)) == pytest.approx(law_ns(decodes(8, 500)), rel=0.02)
    second = deployment(pipeline_parallel=2, pipeline_rank=1)
    guess = predictor_of(f"learned:{out}", second).predict(decodes(8, 500))
    assert guess.outside == "learned from a pipeline's first stage"


def test_fit_says_what_is_wrong(log: Path) -> None:
    for path, said in ((log, "4 steps are too few"), (log / "none", "no step log")):
        result = CliRunner().invoke(app, ["fit", str(path), "--out", str(log / "out.json")])
        assert result.exit_code == 2
        assert said in result.output
    assert not (log / "out.json").exists()


FLAT: dict[str, Any] = {"knots": [10.0], "slopes_ns": [[0.0, 0.0], [0.0, 0.0]]}
SOUND: dict[str, Any] = {
    "lines": [FLAT] * len(NAMES),
    "largest": [1.0] * len(NAMES),
    "steps": 1,
    "held_out_median": 0.1,
    "held_out_p90": 0.2,
    "units_p90": 2.0,
}
"""A stage of a learned predictor, in which nothing takes time."""


def test_a_learned_step_never_takes_no_time() -> None:
    nothing = Regression.from_json(
        json.dumps(
            {"names": list(NAMES), "any": SOUND, "stages": {}, "is_eager": False, "source": ""}
        )
    )
    with pytest.raises(PredictorError, match=r"0\.0 ns came out"):
        Learned(nothing).predict(decodes(1, 10))


@pytest.mark.parametrize(
    "change",
    [{"names": ["step"]}, {"any": {}}, {"any": None}, {"stages": []}, {"more": 1}]
    + [{"stages": {"dream": SOUND}}, {"any": SOUND | {"largest": [1.0]}}]
    + [
        {"any": SOUND | {"lines": [FLAT | bad] * len(NAMES)}}
        for bad in (
            {"slopes_ns": [[0.0, 0.0], [0.0, -1.0]]},
            {"slopes_ns": [[0.0, 0.0], [math.nan, 0.0]]},
            {"slopes_ns": [[0.0, 0.0], [0.0]]},
            {"slopes_ns": [[0.0], [0.0]]},
            {"slopes_ns": [[0.0, 0.0]]},
            {"knots": [0.0]},
            {"knots": [10.0, 5.0]},
        )
    ],
)
def test_a_learned_predictor_that_is_none_is_refused(
    tmp_path: Path, regression: Regression, change: dict[str, Any]
) -> None:
    path = tmp_path / "learned.json"
    path.write_text(json.dumps(json.loads(regression.to_json()) | change))
    with pytest.raises(PredictorError, match="learned predictor"):
        read_spec(f"learned:{path}")
    with pytest.raises(PredictorError, match="warpserve fit"):
        read_spec("learned:nowhere")
    path.write_bytes(b"\x7fELF\xff")
    with pytest.raises(PredictorError, match="is no learned predictor"):
        read_spec(f"learned:{path}")


# The command


def explain(*arguments: str) -> Any:
    command = ["predict", "--model", "llama-3.1-8b", "--gpu", "h100-sxm", *arguments]
    return CliRunner().invoke(app, command)


def test_the_command_explains_a_step() -> None:
    groups = explain("--predictor", "analytic", "--batch", "32x1@1023,1x512@0", "--json")
    options = explain(
        "--predictor", "analytic", "--decode", "32x1024", "--prefill", "1x512", "--json"
    )
    said = json.loads(groups.stdout)
    assert said["provenance"] == "analytic"
    assert (said["requests"], said["new_tokens"], said["padded_tokens"]) == (33, 544, 544)
    total = sum(row["duration_ns"] for row in said["operators"])
    assert total == pytest.approx(said["duration_ns"], abs=2)
    assert json.loads(options.stdout)["duration_ns"] == said["duration_ns"]
    table = explain("--predictor", "analytic", "--decode", "32x1024")
    assert table.exit_code == 0
    assert "decode attention" in table.stdout
    eager = explain("--predictor", "analytic", "--decode", "1x1024", "--eager")
    assert eager.stdout.startswith("16.000 ms, analytic: 1 requests")
    assert "waiting for launches" in eager.stdout
    nine = explain("--predictor", "analytic", "--decode", "9x1024", "--eager")
    assert "9 new tokens, 9 with padding" in nine.stdout


@pytest.mark.parametrize("gpus", [1, 2, 4, 8])
def test_gpus_are_those_of_a_stage_a_replica_or_all(gpus: int) -> None:
    layout = ("--tp", "2", "--pp", "2", "--dp", "2")
    said = explain("--predictor", "analytic", "--decode", "1x9", *layout, "--gpu", f"l40s:{gpus}")
    assert said.exit_code == 0


def test_the_command_sweeps_batch_sizes_and_contexts(log: Path, tmp_path: Path) -> None:
    plot = tmp_path / "sweep.svg"
    sweep = ("--predictor", f"replay:{log}", "--sweep", "8,4@100,1000", "--plot", str(plot))
    table = explain(*sweep)
    assert table.exit_code == 0, table.output
    rows = [line.split() for line in table.stdout.splitlines()]
    assert [row for row in rows if row and row[0] in ("4", "8")] == [
        ["4", "0.005", "0.007"],
        ["8", "0.006", "0.006*"],
    ]
    points = json.loads(explain(*sweep, "--json").stdout)
    assert [point["requests"] for point in points] == [4, 8, 4, 8]
    assert points[3]["outside"] == "not among the 4 batches that were recorded"
    assert plot.read_text().startswith("<?xml")
    for text in ("", "8", "8@", "0@100", "8@0", "8,@100", "a@b"):
        assert explain("--sweep", text).exit_code == 2


@pytest.mark.parametrize(
    "said",
    [
        ("--eager",),
        ("--prefill", "1x10"),
        ("--decode", "1x10"),
        ("--batch", "1x1@10"),
        ("--padded", "8"),
        ("--shared-tokens", "8"),
    ],
)
def test_a_sweep_refuses_what_is_of_one_step(said: tuple[str, ...]) -> None:
    sweep = explain("--predictor", "analytic", "--sweep", "8@100", *said)
    assert (sweep.exit_code, f"{said[0]} is of one step" in sweep.output) == (2, True)


def test_a_sweep_has_the_sampling_and_the_adapters_of_a_step() -> None:
    options: tuple[str, ...] = ("--predictor", "analytic", "--json", "--sampling", "filtered")
    options += ("--loras", "2", "--lora-rank", "16")
    (point,) = json.loads(explain(*options, "--sweep", "8@100").stdout)
    step = json.loads(explain(*options, "--decode", "8x100").stdout)
    assert point["duration_ns"] == step["duration_ns"]


def test_the_command_can_refuse_to_guess(log: Path) -> None:
    known, unknown = (
        explain("--predictor", f"replay:{log}", "--strict", "--decode", groups)
        for groups in ("4x100", "3x100")
    )
    assert known.exit_code == 0
    assert unknown.exit_code == 2
    assert "a step of 3 requests" in unknown.output
    assert "not among the 4 batches that were recorded" in unknown.output


def test_a_session_can_refuse_to_guess(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARPSERVE_PREDICTOR", f"replay:{log}")
    assert isinstance(predictor_of_session(deployment()), Warned)
    monkeypatch.setenv("WARPSERVE_STRICT", "1")
    with pytest.raises(PredictorError, match="3 requests"):
        predictor_of_session(deployment()).predict(decodes(3, 100))


def test_members_are_told_of_predictors_that_are_asked_for_as_a_whole(tmp_path: Path) -> None:
    said: tuple[dict[str, Any], ...] = (
        {"strict": True}, {"step_log": tmp_path}, {"acceptance": "0.5"}, {"ghost_ranks": False}
    )  # fmt: skip
    for option in said:
        with pytest.raises(SessionError, match="say --predictor"):
            prepare_members(MemberOptions(**option), ["true"])
    with pytest.raises(SessionError, match="which with --gpu"):
        prepare_members(MemberOptions(predictor="analytic"), ["true"])
    for strict in (False, True):
        asked = MemberOptions(predictor="analytic", strict=strict)
        env = member_environment(asked, tmp_path / str(strict), ["true"])
        assert bool(env["WARPSERVE_STRICT"]) is strict


@pytest.mark.parametrize(("characters", "are_there"), [(70, True), (71, False)])
def test_vllm_s_sockets_go_with_the_session_unless_their_paths_are_too_long(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, characters: int, are_there: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = Path("x" * characters)
    env = member_environment(MemberOptions(predictor="analytic"), folder, ["true"])
    assert (env.get("VLLM_RPC_BASE_PATH") == str(folder)) is are_there


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--decode", "32"),
        ("--decode", "0x10"),
        ("--decode", "1x0"),
        ("--decode", "1x10", "--plot", "step.svg"),
        ("--prefill", "1x0+5"),
        ("--batch", "1x1"),
        ("--decode", "1x10", "--predictor", "magic"),
        ("--decode", "1x10", "--sampling", "beam"),
        ("--decode", "1x10", "--predictor", "analytic:launch_host=fast"),
        ("--decode", "1x10", "--loras", "2"),
        ("--decode", "1x10", "--gpu", "h1"),
        ("--decode", "1x10", "--model", "nobody/knows"),
        ("--decode", "1x10", "--kv-cache", "fp3", "--predictor", "analytic"),
        ("--decode", "8x10", "--padded", "4", "--predictor", "analytic"),
        ("--decode", "8x10", "--shared-tokens", "9", "--predictor", "analytic"),
        ("--decode", "8x10", "--shared-tokens", "7", "--dp", "2", "--predictor", "analytic"),
        ("--decode", "8x10", "--gpu", "h100-sxm:3", "--dp", "2", "--predictor", "analytic"),
    ],
)
def test_the_command_says_what_is_wrong(arguments: tuple[str, ...]) -> None:
    result = explain(*arguments)
    assert result.exit_code == 2
    assert result.output.startswith("warpserve: ")
    assert len(result.output.splitlines()) == 1

"""Steps from aiconfigurator-core's tables: the same as the package's own answers, and offline."""

from __future__ import annotations

import json
import logging
import statistics
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from tests.harness import CLIENTS, Warpserve, member_pythons
from tests.test_predictors import (
    BATCHES,
    MODELS,
    UNHURRIED,
    compressed,
    decodes,
    deployment,
    ns,
    prefill,
)
from warpserve.predictors.aiconfigurator import tables
from warpserve.predictors.aiconfigurator.client import aiconfigurator, python_environment
from warpserve.predictors.aiconfigurator.launches import without_launches
from warpserve.predictors.aiconfigurator.outliers import MEASURED_ROWS, without_outliers
from warpserve.predictors.aiconfigurator.step_table import StepTable, TableCosts
from warpserve.predictors.aiconfigurator.triton_fp8 import (
    COLUMNS,
    Shape,
    of_bf16,
    parts_by_shape,
)
from warpserve.predictors.aiconfigurator.unlisted import unlisted
from warpserve.predictors.batch import Batch, RequestStep
from warpserve.predictors.composed import Composed
from warpserve.predictors.from_catalogue import hardware_of
from warpserve.predictors.predictor import PredictorError, Provenance
from warpserve.predictors.spec import check_spec
from warpserve.predictors.weights import has_stored_scales

pytest.importorskip("aiconfigurator_core")

ATTENTION = 3
"""Its place among the package's operators of a Llama."""


OF_SGLANG = {"engine": "sglang", "engine_version": "0.5.14"}
ROTATING, NORMS = "rotary embedding", "norms of queries and keys"
STORING = "storing keys and values"
UNLISTED = {ROTATING, NORMS, STORING}


@pytest.fixture(scope="module")
def table() -> StepTable:
    return tables.build_table(deployment())


@pytest.fixture(scope="module")
def costs(table: StepTable) -> TableCosts:
    return TableCosts(StepTable.from_json(table.to_json()))


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The package's own engine of the same deployment."""
    from aiconfigurator_core.sdk.engine import EngineHandle, compile_engine

    folder = tmp_path_factory.mktemp("model")
    (folder / "config.json").write_text(json.dumps(dict(deployment().config)))
    return EngineHandle(compile_engine(str(folder), "h100_sxm", "vllm", "0.24.0"))


def milliseconds(rows: list[tuple[str, float, float, str]]) -> float:
    return sum(latency for _, latency, _, _ in rows)


@pytest.mark.parametrize("tokens", [1, 7, 100, 500, 777, 1500, 3000, 8192, 20_000])
def test_matrices_are_those_of_the_package(costs: TableCosts, package: Any, tokens: int) -> None:
    others = [index for index in range(9) if index != ATTENTION]
    theirs = milliseconds(package.evaluate_context_ops(others, batch_size=1, s=1, x=tokens))
    listed = [row for row in costs.tokens(tokens, has_prefill=True) if row.name not in UNLISTED]
    ours = sum(row.duration_ns for row in listed) / 1e6
    assert ours == pytest.approx(theirs, rel=0.01)


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({}, {ROTATING, STORING}),
        ({"engine": "sglang", "engine_version": "0.5.14"}, {ROTATING}),
        ({"config": MODELS["qwen3-32b"]}, {ROTATING, STORING, NORMS}),
        ({"config": MODELS["qwen3-30b-a3b"], "tensor_parallel": 4}, {ROTATING, STORING, NORMS}),
        ({"config": MODELS["deepseek-v3"]}, set()),
    ],
)
def test_what_the_package_does_not_list(changes: dict[str, Any], names: set[str]) -> None:
    found = unlisted(replace(deployment(), **changes), [1, 2_048])
    assert {each.name for each in found} == names
    assert all(one < many for one, many in (each.duration_ns for each in found))


@pytest.mark.parametrize(
    ("gpu", "model", "tokens", "rotating_us"),
    [
        ("RTXPRO6000", "llama-3.1-8b", 1, 2.7),
        ("RTXPRO6000", "llama-3.1-8b", 2_048, 12.0),
        ("RTXPRO6000", "qwen3-32b", 2_048, 19.8),
        ("RTX4090", "llama-3.1-8b", 1_024, 11.1),
        ("RTX4090", "llama-3.1-8b", 2_048, 26.2),
    ],
)
def test_rotating_is_near_what_was_profiled(
    gpu: str, model: str, tokens: int, rotating_us: float
) -> None:
    """``rotating_us``: rotary_emb in tests/data/llmservingsim/profiles, of one layer."""
    kind = {"RTX4090": "rtx-4090", "RTXPRO6000": "rtx-pro-6000"}[gpu]
    asked = replace(deployment(), config=MODELS[model], hardware=hardware_of(kind))
    rotating = next(each for each in unlisted(asked, [tokens]) if each.name == ROTATING)
    layers = MODELS[model]["num_hidden_layers"]
    assert rotating.duration_ns[0] / layers / 1e3 == pytest.approx(rotating_us, rel=0.4)


@pytest.mark.parametrize(
    ("requests", "context"), [(1, 10), (1, 3000), (5, 700), (64, 1500), (100, 5000), (1, 60_000)]
)
def test_decodes_alike_are_those_of_the_package(
    costs: TableCosts, package: Any, requests: int, context: int
) -> None:
    rows = package.evaluate_generation_ops([ATTENTION], batch_size=requests, s=context)
    (ours,) = costs.decode_attention([context] * requests)
    assert ours.duration_ns / 1e6 == pytest.approx(milliseconds(rows), rel=0.02)


def test_keys_and_values_come_from_memory(costs: TableCosts, table: StepTable) -> None:
    """Small batches were timed out of a cache: they are read no faster than gigabytes are."""
    (read_64,) = costs.decode_attention([8_000] * 64)
    gigabyte_s = read_64.duration_ns / (64 * 8_000) * 1e6
    assert table.cold_token_ns * 1e6 == pytest.approx(gigabyte_s, rel=0.1)
    (start,) = costs.decode_attention([1] * 16)
    for context in (256, 512, 1_024):
        (found,) = costs.decode_attention([context] * 16)
        assert found.duration_ns >= start.duration_ns + table.cold_token_ns * 16 * (context - 16)


@pytest.mark.parametrize(
    ("requests", "new", "cached"),
    [(1, 100, 0), (1, 5000, 0), (1, 512, 7000), (1, 2048, 30_000), (3, 900, 100), (7, 300, 0)],
)
def test_prefills_alike_are_those_of_the_package(
    costs: TableCosts, package: Any, requests: int, new: int, cached: int
) -> None:
    rows = package.evaluate_context_ops([ATTENTION], batch_size=requests, s=new, prefix=cached)
    (ours,) = costs.prefill_attention([(new, cached)] * requests)
    assert ours.duration_ns / 1e6 == pytest.approx(milliseconds(rows), rel=0.03)


def test_requests_that_differ_cost_their_share_of_batches_alike(costs: TableCosts) -> None:
    contexts = [100, 2_000, 40_000]
    (mixed,) = costs.decode_attention(contexts)
    alike = [costs.decode_attention([context] * 3)[0].duration_ns for context in contexts]
    assert mixed.duration_ns == pytest.approx(sum(alike) / 3)


@UNHURRIED
@given(batch=BATCHES)
def test_answers_are_positive_repeatable_and_explained(costs: TableCosts, batch: Batch) -> None:
    predictor = Composed(costs)
    prediction = predictor.predict(batch)
    assert prediction.duration_ns > 0
    assert predictor.predict(batch) == prediction
    explained = sum(row.duration_ns for row in predictor.explain(batch))
    assert explained == pytest.approx(prediction.duration_ns, abs=2)


@pytest.mark.parametrize(
    ("batch", "provenance"),
    [
        (decodes(64, 8_000), Provenance.INTERPOLATED),
        (decodes(64, 9_000), Provenance.EXTRAPOLATED),
        (decodes(1, 65_537), Provenance.EXTRAPOLATED),
        (prefill(16_384), Provenance.INTERPOLATED),
        (prefill(1_000, 15_385), Provenance.EXTRAPOLATED),
        (prefill(40_000), Provenance.EXTRAPOLATED),
    ],
)
def test_steps_outside_of_the_tables_are_marked(
    costs: TableCosts, batch: Batch, provenance: Provenance
) -> None:
    assert Composed(costs).predict(batch).provenance is provenance


@pytest.mark.parametrize("system", ["h100_sxm", "b200_sxm", "rtx_pro_6000_server"])
@pytest.mark.parametrize(
    ("model", "ranks"),
    [("llama-3.1-8b", 1), ("qwen3-14b", 1), ("llama-3.1-70b", 1), ("llama-3.1-70b", 8)],
)
def test_limits_are_those_of_what_was_measured(system: str, model: str, ranks: int) -> None:
    pandas = pytest.importorskip("pandas")
    import aiconfigurator_core

    data = Path(aiconfigurator_core.__file__).parent / "systems" / "data" / system
    attention = data / "attention/vllm/0.24.0"
    decode = pandas.read_parquet(attention / "generation_attention_perf.parquet")
    config = deployment(model).config
    decode = decode[
        (decode.num_heads == config["num_attention_heads"] // ranks)
        & (decode.num_key_value_heads == config["num_key_value_heads"] // ranks)
        & (decode.head_dim == 128)
        & (decode.window_size == 0)
    ]
    context = decode.isl + decode.step
    limits = tables.limits_of(deployment(model, tensor_parallel=ranks))
    assert context.max() == limits.context
    assert decode.batch_size.max() == limits.decode_requests
    assert (context * decode.batch_size).max() == limits.contexts_total
    first = pandas.read_parquet(attention / "context_attention_perf.parquet")
    assert first.isl.max() == limits.prefill_tokens
    gemm = pandas.read_parquet(data / "gemm/vllm/0.24.0/gemm_perf.parquet")
    assert gemm.m.max() == limits.tokens
    assert limits.experts_tokens is None
    experts = pandas.read_parquet(data / "moe/vllm/0.24.0/moe_perf.parquet")
    assert experts.num_tokens.max() == tables.limits_of(deployment("qwen3-30b-a3b")).experts_tokens


def test_stages_add_up_to_the_model(table: StepTable) -> None:
    batch = decodes(32, 1000)
    stages = [
        TableCosts(tables.build_table(deployment(pipeline_parallel=2, pipeline_rank=rank)))
        for rank in range(2)
    ]
    added = sum(ns(Composed(stage), batch) for stage in stages)
    assert added == pytest.approx(ns(Composed(TableCosts(table)), batch), rel=1e-4)


def test_a_table_is_asked_for_once_in_warpserves_own_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WARPSERVE_CACHE", str(tmp_path))
    monkeypatch.setenv("WARPSERVE_PYTHON", python_environment()["WARPSERVE_PYTHON"])
    monkeypatch.setenv("PYTHONHOME", "/of/an/engine")
    first = aiconfigurator(deployment())
    (made,) = tmp_path.glob("aiconfigurator/*.json")
    before = made.stat().st_mtime_ns
    batch = Batch((RequestStep(100, 0, True), RequestStep(1, 900, False)), 104)
    assert aiconfigurator(deployment()).predict(batch) == first.predict(batch)
    assert made.stat().st_mtime_ns == before
    aiconfigurator(deployment(kv_cache="fp8"))
    assert len(list(tmp_path.glob("aiconfigurator/*.json"))) == 2


@pytest.mark.parametrize("python", member_pythons())
def test_members_get_it_in_no_time(warpserve: Warpserve, python: str, tmp_path: Path) -> None:
    """Whatever their Python: it has the standard library only."""
    config = tmp_path / "config.json"
    config.write_text(json.dumps(dict(deployment().config)))
    done = warpserve.run(
        [python, "-S", CLIENTS / "predicted.py", config],
        options=["--gpu", "h100-sxm:8", "--predictor", "aiconfigurator"],
        env={"PYTHONPATH": str(CLIENTS.parents[1])},
    )
    assert done.exit_code == 0, done.stderr
    duration_ns, passed_s = done.stdout.split()
    assert int(duration_ns) == ns(aiconfigurator(deployment()), decodes(1, 101))
    assert float(passed_s) == 0
    assert done.session.warnings["static_binary"] == 0


def test_a_python_without_warpserve_is_an_error_that_names_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("WARPSERVE_PYTHON", "/bin/false")
    with pytest.raises(PredictorError, match="/bin/false"):
        aiconfigurator(deployment())


def test_without_the_package_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "_PACKAGE", "no-such-package")
    with pytest.raises(PredictorError, match=r"warpserve\[aiconfigurator\]"):
        tables.cached_table(deployment(), Path("/nowhere"))


def test_weights_that_the_package_cannot_read_are_told(table: StepTable) -> None:
    config = {**deployment().config, "quantization_config": {"quant_method": "fbgemm_fp8"}}
    read, told = (
        tables.build_table(deployment(**changes)).decode_operators
        for changes in ({"config": config}, {"weights": "fp8"})
    )
    assert read == told
    assert read != table.decode_operators


WEIGHTS_ALONE_IN_FP8 = MODELS["llama-3.1-8b"] | {
    "quantization_config": compressed("float", 8),
}


@pytest.mark.parametrize(
    ("model", "gpu", "changes", "named"),
    [
        ("llama-3.1-8b", "rtx-4090", {}, "rtx-pro-6000"),
        ("gemma-3-27b", "h100-sxm", {}, "Gemma3ForCausalLM"),
        ("llama-3.1-8b", "h100-sxm", {"weights": "int8"}, "tables"),
        ("llama-3.1-8b", "h100-sxm", {"weights": "int8_wo"}, "tables"),
        ("llama-3.1-8b", "h100-sxm", {"config": WEIGHTS_ALONE_IN_FP8}, "weights in fp8_wo"),
        ("qwen3-30b-a3b", "h100-sxm", {"weights": "int8"}, "int8"),
        ("llama-3.1-8b", "h100-sxm", {"weights": "fp3"}, "fp8_block"),
        ("llama-3.1-8b", "h100-sxm", {"kv_cache": "fp3"}, "bf16, fp8"),
        ("qwen3-14b", "h100-sxm", {"tensor_parallel": 3}, "tp_size 3"),
        ("llama-3.1-8b", "h100-sxm", {"engine": "hf"}, "hf"),
    ],
)
def test_what_there_are_no_tables_of_is_named(
    model: str, gpu: str, changes: dict[str, Any], named: str
) -> None:
    with pytest.raises(PredictorError, match=named):
        tables.build_table(deployment(model, hardware=hardware_of(gpu), **changes))


@pytest.mark.parametrize(
    "layout",
    [
        {"tensor_parallel": 2},
        {"config": MODELS["qwen3-30b-a3b"], "data_parallel": 2, "expert_parallel": True},
        {"config": MODELS["qwen3-30b-a3b"], "tensor_parallel": 2},
    ],
)
def test_cards_that_do_not_reach_each_other_take_the_formula(layout: dict[str, Any]) -> None:
    """All else is as between those that do."""
    reached, by_host = (
        {
            row.name: row.duration_ns[0]
            for row in tables.build_table(
                deployment(hardware=hardware_of(f"rtx-pro-6000:2@{box}"), **layout)
            ).decode_operators
        }
        for box in ("pcie-8", "pcie-8-host")
    )
    collectives = {"all-reduce", "gather and scatter"} & by_host.keys()
    replaced = reached.keys() - by_host.keys()
    assert replaced <= {"embedding_ar", "ar_1", "ar_2", "moe_pre_dispatch", "moe_post_dispatch"}
    assert by_host.keys() - reached.keys() == collectives
    assert all(by_host[name] == reached[name] for name in by_host.keys() & reached.keys())
    before_ns, after_ns = (
        sum(rows[name] for name in names)
        for rows, names in ((reached, replaced), (by_host, collectives))
    )
    assert 1.7 * before_ns < after_ns < 6 * before_ns


def test_a_session_that_would_find_no_tables_does_not_begin(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    check_spec("aiconfigurator:host=1ms", hardware_of("h200"))
    check_spec("aiconfigurator", None)
    check_spec("analytic", hardware_of("rtx-4090"))
    with pytest.raises(PredictorError, match="rtx-4090"):
        check_spec("aiconfigurator", hardware_of("rtx-4090"))
    monkeypatch.setattr(tables, "_PACKAGE", "no-such-package")
    with pytest.raises(PredictorError, match="pip install"):
        check_spec("aiconfigurator", hardware_of("h200"))


@pytest.mark.parametrize(
    ("gpu", "changes", "said"),
    [
        ("l40s:2", {"tensor_parallel": 2}, "collectives"),
        ("rtx-pro-6000:2", {"tensor_parallel": 2}, "goes through the host's memory"),
        ("a100-80", {}, "45 %"),
        ("h100-sxm", {"weights": "fp8_block"}, "come from sglang's tables"),
        ("l40s", {"weights": "fp8_block"}, "come out too long"),
        ("h100-sxm", {"config": MODELS["qwen3-30b-a3b"], "weights": "fp8"}, "Triton's in bf16"),
        ("h100-sxm", {"config": MODELS["gpt-oss-20b"], "engine": "sglang"}, "from vllm's tables"),
        (
            "h100-sxm:8",
            {"config": MODELS["deepseek-v3"], "engine": "sglang", "tensor_parallel": 8},
            "long prefills of latent attention",
        ),
        ("h100-sxm", {"engine_version": "0.33.0"}, "stand in for vllm 0.33.0"),
        (
            "b200:2",
            {"weights": "fp8", "tensor_parallel": 2},
            "measured times of matrices stood out",
        ),
    ],
)
def test_known_holes_are_told(gpu: str, changes: dict[str, Any], said: str) -> None:
    holed = deployment(hardware=hardware_of(gpu), **changes)
    assert any(said in note for note in tables.build_table(holed).notes)


def test_matrices_in_blocks_take_no_launch() -> None:
    """Under vLLM as under SGLang: with few tokens as SGLang's tables say, with many as vLLM's."""
    of_vllm = deployment("qwen3-32b", hardware=hardware_of("b200"), weights="fp8_block")
    of_sglang = replace(of_vllm, engine="sglang", engine_version="0.5.14")
    few, many = (
        [matrices_ns(TableCosts(tables.build_table(of)), tokens) for of in (of_vllm, of_sglang)]
        for tokens in (8, 16_384)
    )
    assert few[0] == few[1]
    assert many[1] < many[0] < 1.6 * many[1]
    assert not any("launch" in note for note in tables.build_table(of_sglang).notes)


def matrices_ns(costs: TableCosts, tokens: int) -> float:
    rows = costs.tokens(tokens, has_prefill=True)
    return sum(row.duration_ns for row in rows if row.name.endswith("_gemm"))


def test_a_time_near_the_shortest_is_the_launch() -> None:
    assert without_launches([100, 110, 199, 210], [5, 20, 80, 150]) == [5, 20, 80, 210]
    assert without_launches([100, 110], [120, 90]) == [100, 90], "never longer than it was"


@pytest.mark.parametrize("kv_cache", ["bf16", "fp8"])
def test_latent_attention_under_sglang_has_tables(kv_cache: str) -> None:
    found = tables.build_table(
        deployment(
            "deepseek-v3", hardware=hardware_of("b200:8"), tensor_parallel=8,
            engine="sglang", engine_version="0.5.14", kv_cache=kv_cache,
        )
    )  # fmt: skip
    assert all(duration_ns > 0 for row in found.decode_attention for duration_ns in row)


def spiked(**spikes_ns: int) -> tuple[list[int], list[int]]:
    """Rows, and times that grow with them; ``spikes_ns``: other times, by _ROWS."""
    rows = sorted({*MEASURED_ROWS, *range(1, 129)})
    other = {int(name[1:]): time_ns for name, time_ns in spikes_ns.items()}
    return rows, [other.get(size, 1_000 + size) for size in rows]


def test_a_time_that_stands_out_is_replaced_and_what_is_drawn_from_it() -> None:
    rows, times_ns = spiked(_1=3_000, _7=2_000, _64=3_000, _60=2_500)
    found, outliers = without_outliers(rows, times_ns)
    assert outliers == 3, "60 rows were not measured"
    assert found == [1_000 + size for size in rows]


def test_times_that_stand_out_beside_each_other_are_replaced_too() -> None:
    rows, times_ns = spiked(_1=4_000, _2=2_600)
    found, outliers = without_outliers(rows, times_ns)
    assert outliers == 2
    assert found == [1_000 + size for size in rows]


@pytest.mark.parametrize("size", [17, 129, 257, 513])
def test_a_jump_behind_a_tile_stays(size: int) -> None:
    rows, times_ns = spiked()
    jump_ns = [t if row < size else 2 * t for row, t in zip(rows, times_ns, strict=True)]
    jump_ns[rows.index(size)] *= 2
    assert without_outliers(rows, jump_ns) == (jump_ns, 0)


def test_times_that_grow_are_left_alone() -> None:
    rows, times_ns = spiked()
    assert without_outliers(rows, times_ns) == (times_ns, 0)


def test_notes_reach_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        aiconfigurator(replace(deployment(), engine_version="0.33.0"))
    assert "stand in for vllm 0.33.0" in caplog.text


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"source": "x"}'])
def test_what_is_no_table_is_refused(text: str) -> None:
    with pytest.raises(PredictorError, match="not a table"):
        StepTable.from_json(text)


# DeepSeek


def of_deepseek(**changes: Any) -> StepTable:
    return tables.build_table(deployment("deepseek-v3", hardware=hardware_of("h200:8"), **changes))


@pytest.mark.parametrize("is_expert_parallel", [False, True])
def test_each_layer_has_two_collectives_under_both_engines(is_expert_parallel: bool) -> None:
    """Of 8,192 tokens, 117 MB: some half a millisecond each."""
    of_8192 = tables._TOKENS.index(8192)
    layout: dict[str, Any] = {"tensor_parallel": 8, "expert_parallel": is_expert_parallel}
    for engine in ({}, OF_SGLANG):
        table = of_deepseek(**layout, **engine)
        names = {operator.name for operator in table.decode_operators}
        assert names.isdisjoint({"tp_allreduce", "moe_pre_dispatch"})
        collectives_ms = sum(
            operator.duration_ns[of_8192] / 1e6
            for operator in table.prefill_operators
            if operator.name in ("tp_allreduce", "moe_pre_dispatch", "moe_post_dispatch")
        )
        assert 0.4 < collectives_ms / 61 / 2 < 0.6


def test_replicas_that_share_experts_have_collectives_beside_those_of_experts() -> None:
    table = of_deepseek(tensor_parallel=4, data_parallel=2, expert_parallel=True)
    names = {operator.name for operator in table.prefill_operators}
    assert names > {"tp_allreduce", "moe_pre_dispatch", "moe_post_dispatch"}


def test_experts_beside_the_shared_one_see_the_tokens_of_all_replicas() -> None:
    table = of_deepseek(tensor_parallel=4, data_parallel=2, expert_parallel=True)
    costs = TableCosts(table, replicas=2)

    def experts_ns(shared_tokens: int | None) -> float:
        rows = costs.tokens(256, has_prefill=False, shared_tokens=shared_tokens)
        return next(row.duration_ns for row in rows if row.name == "moe_overlap")

    assert experts_ns(512) == experts_ns(None)
    assert experts_ns(256 + 4_096) > 1.5 * experts_ns(None)
    assert costs.outside(8_192, [], [1]) is None
    assert costs.outside(8_193, [], [1]) == "16,386 tokens for the experts, measured up to 16,384"
    assert costs.outside(8_193, [], [1], shared_tokens=8_200) is None


@pytest.mark.parametrize("engine", [{}, OF_SGLANG])
def test_each_engine_is_the_others_twin_once(
    monkeypatch: pytest.MonkeyPatch, engine: dict[str, Any]
) -> None:
    """vLLM takes SGLang's matrices, SGLang takes vLLM's long prefills, and neither takes both."""
    built = []
    build = tables._Model.__init__

    def counted(model: Any, *arguments: Any) -> None:
        built.append(model)
        build(model, *arguments)

    monkeypatch.setattr(tables._Model, "__init__", counted)
    table = of_deepseek(tensor_parallel=8, **engine)
    assert len(built) == 2
    matrices = [op for op in table.prefill_operators if op.name.endswith("_gemm")]
    assert {"sglang's" in operator.source for operator in matrices} == {not engine}


def test_long_prefills_under_sglang_have_keys_and_values_of_each_head() -> None:
    """On Hopper, where its tables have all in latent space."""
    own, vllms = (of_deepseek(tensor_parallel=8, **engine) for engine in (OF_SGLANG, {}))

    def ns_of(table: StepTable, new: int, cached: int) -> int:
        by_new = table.prefill_attention[0][tables._NEW.index(new)]
        return by_new[tables._CACHED.index(cached)]

    for new, cached in ((8192, 0), (16384, 0), (8192, 8192)):
        assert ns_of(own, new, cached) == ns_of(vllms, new, cached)
    for new, cached in ((8192, 1024), (1024, 0), (1024, 8192)):
        assert ns_of(own, new, cached) != ns_of(vllms, new, cached)
    assert ns_of(own, 8192, 1024) > 1.5 * ns_of(own, 8192, 0)


# Experts


def experts_of(model: str, **changes: Any) -> dict[int, float]:
    """What they take, in ms, by tokens."""
    of_experts = deployment(model, **changes)
    (operator,) = (op for op in tables.build_table(of_experts).decode_operators if op.name == "moe")
    asked = (1, 32, 1024, 8192)
    return {n: operator.duration_ns[tables._TOKENS.index(n)] / 1e6 for n in asked}


def test_both_engines_run_gpt_oss_in_the_same_kernels_on_hopper() -> None:
    under_vllm, under_sglang = (experts_of("gpt-oss-120b", **engine) for engine in ({}, OF_SGLANG))
    assert under_sglang == under_vllm
    whole = {"expert_parallel": True, "tensor_parallel": 2}
    as_bf16 = experts_of("gpt-oss-120b", **OF_SGLANG, **whole)
    assert as_bf16[32] > 1.5 * experts_of("gpt-oss-120b", **whole)[32]


# In fp8, on Hopper

DYNAMIC = {"quant_method": "fp8", "activation_scheme": "dynamic"}
STATIC = {"quant_method": "fp8", "activation_scheme": "static"}
A_ROW = {"config_groups": {"0": {"input_activations": {"strategy": "token", "dynamic": True}}}}
A_TENSOR = {"config_groups": {"0": {"input_activations": {"strategy": "tensor"}}}}


@pytest.mark.parametrize(
    "changes",
    [{}, OF_SGLANG, {"hardware": hardware_of("h200")}],
)
def test_experts_in_fp8_take_a_part_of_those_in_bf16(changes: dict[str, Any]) -> None:
    """Half of the bytes, on units of twice the rate."""
    in_bf16, in_fp8 = (
        experts_of("qwen3-30b-a3b", **each) for each in (changes, {**changes, "weights": "fp8"})
    )
    for tokens, duration_ms in in_fp8.items():
        assert 0.5 < duration_ms / in_bf16[tokens] < 0.75


def test_vllm_s_experts_with_stored_scales_are_those_of_its_tables() -> None:
    config = MODELS["qwen3-30b-a3b"]
    static, dynamic = (
        experts_of("qwen3-30b-a3b", config={**config, "quantization_config": quantization})
        for quantization in (STATIC, DYNAMIC)
    )
    assert static[32] > 4 * dynamic[32]
    assert dynamic == experts_of("qwen3-30b-a3b", weights="fp8")


@pytest.mark.parametrize(
    ("quantization", "are_stored"),
    [
        (DYNAMIC, False),
        (STATIC, True),
        ({"quant_method": "modelopt", "quant_algo": "FP8"}, True),
        ({"quant_method": "compressed-tensors", **A_ROW}, False),
        ({"quant_method": "compressed-tensors", **A_TENSOR}, True),
        ({}, False),
    ],
)
def test_scales_of_activations_are_stored_or_not(
    quantization: dict[str, Any], are_stored: bool
) -> None:
    assert has_stored_scales({"quantization_config": quantization}) is are_stored


def test_blocks_show_how_right_parts_of_another_version_are() -> None:
    """Triton's times with weights in blocks, of which both versions have tables on H200."""
    import aiconfigurator_core
    from pyarrow import parquet

    data = Path(str(aiconfigurator_core.__file__)).parent / "systems/data/h200_sxm/moe/vllm"
    rows = parquet.read_table(data / "0.24.0/moe_perf.parquet").to_pylist()
    keyed = {
        (Shape(*(r[c] for c in COLUMNS)), r["num_tokens"], r["distribution"], r["moe_dtype"]): r
        for r in rows
        if "triton" in r["kernel_source"]
    }
    parts = parts_by_shape("fp8_block")
    errors = []
    for (shape, tokens, spread, mode), row in keyed.items():
        in_bf16 = keyed.get((shape, tokens, spread, "bfloat16"))
        part = parts.get(shape, {}).get(tokens)
        if mode == "fp8_block" and in_bf16 is not None and part is not None:
            errors.append(abs(part * in_bf16["latency"] / row["latency"] - 1))
    assert len(errors) > 2_000
    assert statistics.median(errors) < 0.025
    assert statistics.quantiles(errors, n=10)[-1] < 0.11


def test_shapes_that_were_not_timed_take_what_others_do_in_the_median() -> None:
    odd = {**MODELS["qwen3-30b-a3b"], "moe_intermediate_size": 1024}
    (part,) = of_bf16(deployment(config=odd, weights="fp8"), [32])
    assert 0.55 < part < 0.75

"""Steps by kernels that a profiler timed inside an engine."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.test_predictors import MODELS
from warpserve.predictors.analytic.collectives import gather_ns
from warpserve.predictors.batch import Batch, RequestStep
from warpserve.predictors.deployment import Deployment, Drafter
from warpserve.predictors.from_catalogue import hardware_of
from warpserve.predictors.predictor import PredictorError, Provenance
from warpserve.predictors.profile.grid import Grid, Steps
from warpserve.predictors.spec import check_spec, predictor_of

PROFILES = Path(__file__).parent / "data" / "llmservingsim" / "profiles" / "RTXPRO6000"
LLAMA = PROFILES / "Llama-3.1-8B"
GAPS_MS = (32 * (8 + 2) + 2) * 0.0012
"""Matrices, norms and activations of a layer, and its attention; embedding and last norm."""


def deployment(model: str = "llama-3.1-8b", **changes: Any) -> Deployment:
    whole = Deployment(MODELS[model], hardware_of("rtx-pro-6000"), "vllm", "0.19.0")
    return replace(whole, **changes)


def rows(folder: Path, name: str) -> list[dict[str, str]]:
    with gzip.open(folder / f"{name}.csv.gz", "rt", newline="") as file:
        return list(csv.DictReader(file))


def measured_ms(name: str, **at: object) -> float:
    """Of one layer, of all rows of the profile that are so."""
    wanted = {axis: str(value) for axis, value in at.items()}
    found = [row for row in rows(LLAMA, name) if wanted.items() <= row.items()]
    assert found, (name, at)
    return sum(float(row["time_us"]) for row in found) / 1e3


def step(*requests: tuple[int, int, bool]) -> Batch:
    steps = tuple(RequestStep(*each) for each in requests)
    return Batch(steps, sum(each.new_tokens for each in steps))


def operators_ms(batch: Batch, path: Path = LLAMA, **changes: Any) -> dict[str, float]:
    """By name; of two of a name, their sum."""
    totals: dict[str, float] = {}
    for row in predictor_of(f"profile:{path}", deployment(**changes)).explain(batch):
        totals[row.name] = totals.get(row.name, 0.0) + row.duration_ns / 1e6
    return totals


def test_a_step_is_the_sum_of_its_kernels() -> None:
    found = operators_ms(step(*[(1, 1023, False)] * 64))
    once = ("embedding", "final_layernorm")
    layers = {row["layer"] for row in rows(LLAMA, "dense")}
    for name in layers - {*once}:
        times = 64 if name == "layernorm" else 32
        assert found.pop(name) == pytest.approx(times * measured_ms("dense", layer=name, tokens=64))
    for name in once:
        assert found.pop(name) == pytest.approx(measured_ms("dense", layer=name, tokens=64))
    attention_ms = measured_ms("attention", prefill_chunk=0, n_decode=64, kv_decode=1024)
    assert found.pop("decode attention") == pytest.approx(32 * attention_ms)
    logits_ms = measured_ms("per_sequence", layer="lm_head", sequences=64)
    assert found.pop("lm_head") == pytest.approx(logits_ms)
    assert found.pop("between kernels") == pytest.approx(GAPS_MS)
    assert found.keys() == {"sampling"}


def test_prefills_and_decodes_share_attention() -> None:
    batch = step((1024, 512, True), *[(1, 1023, False)] * 32)
    found = operators_ms(batch)
    both = {"prefill_chunk": 1024, "kv_prefill": 512}
    alone_ms = measured_ms("attention", **both, n_decode=0)
    together_ms = measured_ms("attention", **both, n_decode=32, kv_decode=1024)
    assert found["prefill attention"] == pytest.approx(32 * alone_ms)
    assert found["decode attention"] == pytest.approx(32 * (together_ms - alone_ms))


def test_many_prompts_have_fewer_pairs_than_one_long_one() -> None:
    one = operators_ms(step((2000, 0, True)))
    ten = operators_ms(step(*[(200, 0, True)] * 10))
    assert ten["prefill attention"] < 0.2 * one["prefill attention"]
    assert ten["gate_up_proj"] == one["gate_up_proj"]


def test_the_uneven_take_longer() -> None:
    even = operators_ms(step(*[(1, 1000, False)] * 64))
    uneven = operators_ms(step((1, 4780, False), *[(1, 940, False)] * 63))
    assert uneven["longest context"] > 1
    assert "longest context" not in even
    assert uneven["decode attention"] == pytest.approx(even["decode attention"])


@pytest.mark.parametrize(
    ("batch", "reason"),
    [
        (step((3000, 0, True)), "3,000 tokens in a step, measured up to 2,048"),
        (step(*[(1, 1000, False)] * 300), "300 decodes, measured up to 256"),
        (step((1, 19_999, False)), "20,000 tokens of context a decode, measured up to 16,384"),
        (step((16, 20_000, True)), "20,000 cached tokens of prefills, measured up to 16,384"),
    ],
)
def test_what_lies_outside_is_said(batch: Batch, reason: str) -> None:
    predictor = predictor_of(f"profile:{LLAMA}", deployment())
    prediction = predictor.predict(batch)
    assert (prediction.provenance, prediction.outside) == (Provenance.EXTRAPOLATED, reason)
    inside = predictor.predict(step((1, 100, False)))
    assert inside.provenance is Provenance.INTERPOLATED
    assert prediction.duration_ns > inside.duration_ns


# Profiles of other layouts, made from formulas


def write(
    folder: Path, name: str, axes: Iterable[str], points: Mapping[tuple[Any, ...], float]
) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{name}.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*axes, "time_us"])
        writer.writerows([*point, value] for point, value in points.items())


def write_profile(folder: Path, *, ranks: int = 1, matrices: Iterable[str] = ()) -> None:
    """Of qwen3-30b-a3b: what reads its weights at 1.4 TB/s, and 1 us of everything else."""
    reading_us = 2 * 2048 * 151_936 / ranks / 1.4e12 * 1e6
    dense = ("qkv_proj", "o_proj", "layernorm", *matrices)
    write(
        folder, "dense", ("layer", "tokens"),
        dict.fromkeys(product(dense, (1, 2048)), 1.0),
    )  # fmt: skip
    write(
        folder, "per_sequence", ("layer", "sequences"),
        {("lm_head", 1): reading_us, ("lm_head", 256): reading_us},
    )  # fmt: skip
    write(
        folder, "attention", ("prefill_chunk", "kv_prefill", "n_decode", "kv_decode"),
        {(0, 0, 1, 16): 1.0, (0, 0, 256, 4096): 9.0, (16, 0, 0, 0): 1.0, (2048, 0, 0, 0): 5.0},
    )  # fmt: skip


def write_experts(folder: Path) -> None:
    """A microsecond for each token, and one for each expert."""
    points = {(t, e): float(t + e) for t, e in product((1, 64), (8, 128))}
    write(folder, "moe", ("tokens", "activated_experts"), points)


def test_experts_by_how_many_are_hit(tmp_path: Path) -> None:
    write_profile(tmp_path / "tp1")
    write_experts(tmp_path / "tp1")
    one, many = (
        operators_ms(step(*[(1, 99, False)] * count), tmp_path, config=MODELS["qwen3-30b-a3b"])
        for count in (1, 64)
    )
    assert one["moe"] == pytest.approx(48 * (1 + 8) / 1e3)
    assert many["moe"] == pytest.approx(48 * (64 + 128 * (1 - (1 - 8 / 128) ** 64)) / 1e3)


def test_whole_experts_on_two_ranks(tmp_path: Path) -> None:
    """Half the tokens' visits, and half the experts."""
    write_profile(tmp_path / "tp1")
    write_experts(tmp_path / "tp1")
    write_profile(tmp_path / "tp2", ranks=2)
    two = {"config": MODELS["qwen3-30b-a3b"], "tensor_parallel": 2}
    batch = step(*[(1, 99, False)] * 64)
    found = operators_ms(batch, tmp_path, **two, expert_parallel=True)
    is_hit = 1 - (1 - 8 / 128) ** 64
    assert found["moe"] == pytest.approx(48 * (32 + 64 * is_hit) / 1e3)
    assert found["all-reduce"] > 0
    with pytest.raises(PredictorError, match=r"tp2 has no moe.csv; tp1's is of whole experts"):
        operators_ms(batch, tmp_path, **two)


def test_replicas_share_experts(tmp_path: Path) -> None:
    """Each has half of them, which see the tokens of both, gathered before and scattered behind."""
    write_profile(tmp_path / "tp1")
    write_experts(tmp_path / "tp1")
    hardware = hardware_of("rtx-pro-6000:2")
    whole = {"config": MODELS["qwen3-30b-a3b"], "hardware": hardware}
    batch = step(*[(1, 99, False)] * 32)
    found = operators_ms(batch, tmp_path, **whole, data_parallel=2, expert_parallel=True)
    is_hit = 1 - (1 - 8 / 128) ** 64
    assert found["moe"] == pytest.approx(48 * (32 + 64 * is_hit) / 1e3)
    few = operators_ms(
        batch._replace(shared_tokens=34), tmp_path, **whole, data_parallel=2, expert_parallel=True
    )
    assert few["moe"] == pytest.approx(48 * (17 + 64 * (1 - (1 - 8 / 128) ** 34)) / 1e3)
    gathered_ms = gather_ns(hardware, 2, 64 * 2_048 * 2) / 1e6
    assert found["gather and scatter"] == pytest.approx(2 * 48 * gathered_ms)
    assert "all-reduce" not in found


def test_a_stage_has_its_layers() -> None:
    whole = operators_ms(step((1, 99, False)))
    stages = [
        operators_ms(step((1, 99, False)), pipeline_parallel=2, pipeline_rank=rank)
        for rank in (0, 1)
    ]
    for name, duration_ms in whole.items():
        if name != "between kernels":
            assert sum(stage.get(name, 0) for stage in stages) == pytest.approx(duration_ms)
    assert "lm_head" not in stages[0]
    assert "embedding" not in stages[1]


def test_a_drafter_is_priced_by_the_roofline_and_the_log_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Even one that is like the model of the profile: files do not say what they are of."""
    alone, batch = deployment(), step(*[(4, 99, False)] * 8)
    drafted = predictor_of(f"profile:{LLAMA}", replace(alone, drafter=Drafter(alone, 1)))
    assert "the drafter is predicted by `analytic`" in caplog.text
    target, drafts = (predictor_of(kind, alone) for kind in (f"profile:{LLAMA}", "analytic"))
    added_ns = target.predict(batch).duration_ns + drafts.predict(batch).duration_ns
    assert drafted.predict(batch).duration_ns == added_ns


# What is refused


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"config": MODELS["llama-3.1-70b"]}, "of another model"),
        ({"hardware": hardware_of("h100-sxm")}, "of another model, number of ranks, format or GPU"),
        ({"tensor_parallel": 2}, "of another model, number of ranks"),
        ({"config": MODELS["deepseek-v3"]}, "full, grouped attention only"),
        ({"config": MODELS["gemma-3-27b"]}, "full, grouped attention only"),
        ({"expert_dispatch": "deepep"}, "use analytic"),
        ({"data_parallel": 2}, "no experts that replicas divide"),
    ],
)
def test_a_profile_of_something_else_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(PredictorError, match=message):
        predictor_of(f"profile:{LLAMA}", deployment(**changes))


def without_attention(folder: Path) -> None:
    (folder / "attention.csv").unlink()


def without_a_column(folder: Path) -> None:
    path = folder / "dense.csv"
    path.write_text(path.read_text().replace("tokens", "rows"))


def with_words(folder: Path) -> None:
    path = folder / "dense.csv"
    path.write_text(path.read_text().replace("1.0", "fast"))


def with_no_time(folder: Path) -> None:
    path = folder / "dense.csv"
    path.write_text(path.read_text().replace("1.0", "0"))


def with_an_unknown_layer(folder: Path) -> None:
    write_profile(folder, matrices=("mamba",))


def without_the_last_layer(folder: Path) -> None:
    path = folder / "per_sequence.csv"
    path.write_text(path.read_text().replace("lm_head", "sampler"))


def cut_off(folder: Path) -> None:
    whole = gzip.compress((folder / "dense.csv").read_bytes())
    (folder / "dense.csv").unlink()
    (folder / "dense.csv.gz").write_bytes(whole[: len(whole) // 2])


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (without_attention, r"no attention\.csv, so no profile of LLMServingSim's profiler"),
        (without_a_column, r"dense\.csv: no column tokens"),
        (with_words, r"dense\.csv: could not convert"),
        (with_no_time, r"dense\.csv: time_us is 0"),
        (with_an_unknown_layer, "layer 'mamba' is not known; known are embedding, layernorm"),
        (without_the_last_layer, "lacks qkv_proj or lm_head"),
        (cut_off, r"dense\.csv\.gz: "),
    ],
)
def test_a_damaged_profile_is_an_error_that_names_it(
    damage: Callable[[Path], None], message: str, tmp_path: Path
) -> None:
    write_profile(tmp_path)
    write_experts(tmp_path)
    damage(tmp_path)
    with pytest.raises(PredictorError, match=message):
        operators_ms(step((1, 99, False)), tmp_path, config=MODELS["qwen3-30b-a3b"])


@pytest.mark.parametrize("name", ["missing", "."])
def test_no_profile_is_an_error_before_an_engine_starts(name: str, tmp_path: Path) -> None:
    with pytest.raises(PredictorError, match=r"no dense\.csv there, nor in tp1, tp2"):
        check_spec(f"profile:{tmp_path / name}", None)


def test_a_degree_that_was_not_profiled_is_named_with_those_that_were(tmp_path: Path) -> None:
    write_profile(tmp_path / "tp1")
    write_profile(tmp_path / "tp2", ranks=2)
    with pytest.raises(PredictorError, match="no profile of tp4; there are tp1, tp2"):
        predictor_of(f"profile:{tmp_path}", deployment("qwen3-30b-a3b", tensor_parallel=4))


# Interpolation


def linear(point: tuple[float, ...]) -> float:
    return 3 + 2 * point[0] + 5 * point[1]


@given(st.floats(0, 40), st.floats(0, 40))
def test_a_grid_with_holes_knows_what_is_linear(x: float, y: float) -> None:
    points: dict[tuple[int, ...], float]
    points = {(i, j): linear((i, j)) for i in (0, 4, 9, 20) for j in (0, 3 + i, 30)}
    assert Grid(points).at((x, y)) == pytest.approx(linear((x, y)))


def test_below_a_grid_it_is_as_at_its_first_point() -> None:
    assert Grid({(4, 7): 2.0, (8, 7): 4.0}).at((1, 99)) == 2


def test_kernels_work_on_whole_tiles() -> None:
    curve = Steps({(1,): 1.0, (16,): 2.0, (32,): 4.0})
    assert [curve.at(x) for x in (1, 2, 16, 17, 32)] == [1, 2, 2, 4, 4]
    assert curve.at(48) == pytest.approx(6)

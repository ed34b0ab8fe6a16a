"""What compares predictors with measurements: the estimate of a steady load, the fit, the data."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.benchmarks import cookbook
from tests.benchmarks.predictors.clients import INFERENCEX, steady
from tests.benchmarks.predictors.engine_errors import Part, fit_scales
from tests.benchmarks.predictors.errors import Errors
from tests.benchmarks.predictors.prefill_parts import Instants, PrefillTime
from tests.benchmarks.predictors.profiles import PROFILES, Profile
from tests.benchmarks.predictors.real_runs import _RUNS, decode_steps
from tests.benchmarks.predictors.serving_points import points_by_cell, waves
from tests.benchmarks.predictors.sglang_points import errors_without_it
from tests.benchmarks.predictors.steady_state import Load, tpot_ns, wave
from warpserve.bench.calibration.fitting import fit_line
from warpserve.bench.models import model_named
from warpserve.bench.results import RequestResult
from warpserve.predictors.batch import Batch, RequestStep
from warpserve.predictors.constant import Constant
from warpserve.predictors.deployment import Deployment
from warpserve.predictors.eager import LAUNCH_NS, launches
from warpserve.predictors.from_catalogue import hardware_of
from warpserve.predictors.predictor import Prediction, Provenance
from warpserve.predictors.replay import RecordedStep


class ByTokens:
    """A nanosecond for each token, and the batches that it was asked about."""

    def __init__(self) -> None:
        self.asked: list[Batch] = []

    def predict(self, batch: Batch) -> Prediction:
        self.asked.append(batch)
        return Prediction(batch.new_tokens, Provenance.STATED)


def test_alone_a_request_only_decodes() -> None:
    assert tpot_ns(ByTokens(), Load(1, 100, 10)) == 1


def test_others_are_prefilled_meanwhile() -> None:
    """Three others in nine steps: three of 102 + 1 tokens, six of 4."""
    predictor = ByTokens()
    assert tpot_ns(predictor, Load(4, 100, 10)) == pytest.approx((3 * 103 + 6 * 4) / 9)
    contexts = [step.cached_tokens for step in predictor.asked[-1].requests]
    assert contexts == [101, 104, 106, 109]


def test_prompts_longer_than_the_budget_come_in_chunks() -> None:
    predictor = ByTokens()
    tpot_ns(predictor, Load(2, 20_000, 1000))
    chunks = [batch.requests[-1] for batch in predictor.asked[:-1]]
    assert [chunk.new_tokens for chunk in chunks] == [8191, 8191, 3618]
    assert [chunk.cached_tokens for chunk in chunks] == [0, 8191, 16382]


def test_no_more_steps_are_mixed_than_there_are() -> None:
    assert tpot_ns(ByTokens(), Load(64, 1000, 10)) == 1063


def test_a_fit_finds_host_time_and_leaves_alone_what_is_right() -> None:
    predicted = [1e6 * n for n in (1, 2, 5, 10, 30, 70)]
    right = fit_line([(p, p) for p in predicted])
    assert right.scale == pytest.approx(1)
    assert right.host_ns == pytest.approx(0, abs=1)
    slow_host = fit_line([(p, p + 2e6) for p in predicted])
    assert slow_host.host_ns == pytest.approx(2e6, rel=0.01)
    assert slow_host.scale == pytest.approx(1, rel=0.01)
    assert fit_line([(p, 0.9 * p - 1e5) for p in predicted]).host_ns == 0


def test_errors_are_summarised() -> None:
    assert Errors.of([-0.5, 0.1, 0.2]) == Errors(points=3, median=0.2, worst=0.5, bias=0.1)


def test_there_are_points_to_compare_with() -> None:
    points = [point for points in points_by_cell().values() for point in points]
    compared = [point for point in points if not point.is_queueing]
    assert len(compared) >= 60
    assert len({cell.model for cell in points_by_cell()}) == 4
    assert all(point.tpot_ns > 0 for point in points)


def test_a_wave_waits_for_its_prefills() -> None:
    """16 prompts of 1,024 tokens: two prefills of eight, so that each waits for one and a half."""
    found = wave(Constant(10_000_000), Load(16, 1_024, 101))
    assert found.ttft_ns == 15_000_000
    assert found.tpot_ns == 10_000_000 + 5_000_000 / 100
    with pytest.raises(ValueError, match="several steps"):
        wave(Constant(1), Load(1, 9_000, 2))


def test_the_first_wave_and_the_last_are_not_steady() -> None:
    requests = [
        RequestResult(
            index=index,
            start_s=index,
            input_tokens=1,
            output_tokens=1,
            ttft_s=1,
            itl_s=(),
            error=None,
        )
        for index in (5, 0, 4, 1, 3, 2)
    ]
    assert [request.index for request in steady(requests, 2)] == [2, 3]


def test_what_a_point_is_told_of_is_not_the_point_itself() -> None:
    pairs = [(1e6, 1e6), (2e6, 2e6), (3e6, 6e6)]
    errors = errors_without_it(pairs)
    assert errors[2] == pytest.approx(-0.5, abs=0.01)
    assert len(waves()) == 2


def test_profiles_and_runs_give_steps_of_all_kinds() -> None:
    steps = list(Profile(PROFILES / "RTX4090" / "Llama-3.1-8B", 32).steps())
    assert {step.kind for step in steps} == {"decode", "prefill", "mixed"}
    one_decode = next(step for step in steps if step.kind == "decode")
    weights_ns = 2 * 7.5e9 / 1.008e12 * 1e9  # read once
    assert weights_ns < one_decode.measured_ns < 1.5 * weights_ns
    for batch, duration_ns in decode_steps(_RUNS / "RTX4090"):
        assert weights_ns < duration_ns < 5 * weights_ns
        assert not any(request.is_prefill for request in batch.requests)


SERVING_MS = 8
"""Of a first token, what servers and client of the cookbook took: predictors/eager.py."""
LONE = [table for table in cookbook.tables() if table.concurrency == 1]


def test_the_cookbooks_requests_are_drawn_again(tmp_path: Path) -> None:
    """Their tokens add up to what its client counted, or this raises."""
    workloads = {table.workload(tmp_path) for table in cookbook.tables()}
    assert len(workloads) == len(cookbook.tables()) == 10


@pytest.mark.parametrize("table", LONE, ids=lambda table: f"{table.name}-{table.input_tokens}")
def test_launches_make_the_first_tokens_of_lone_prompts(table: cookbook.Published) -> None:
    """With nothing but a model's layers: within 30 %, where a GPU is busy for half of it or less,
    as it is with prompts of 600 tokens in the mean.
    """
    deployment = Deployment(
        model_named(table.model).config(), hardware_of("b200:8"), "sglang", "0.5.23", 8
    )
    launched_ms = launches(deployment) * LAUNCH_NS / 1e6
    assert launched_ms == pytest.approx(table.figure("ttft", "p50") - SERVING_MS, rel=0.3)


def test_more_flags_depend_on_the_load() -> None:
    client = INFERENCEX._replace(
        engine_flags=("--a",), flags_of_load=lambda load: (str(load.concurrency),)
    )
    assert client.flags(Load(4, 100, 10)) == ("--a", "4")


# What prefills add to a run, and scales apart


def test_a_run_s_times_are_split_into_decodes_and_what_prefills_add() -> None:
    """One request of two is prefilled while the other decodes."""
    decode, prefill = RequestStep(1, 50, False), RequestStep(10, 0, True)
    batches = [
        Batch((RequestStep(3, 0, True),), 3),
        Batch((decode, prefill), 11),
        Batch((decode, decode), 2),
        Batch((decode, decode), 2),
    ]
    steps, now_ns = [], 1_000
    for batch in batches:
        prediction = Prediction(batch.new_tokens, Provenance.STATED)
        steps.append(RecordedStep(batch, prediction, now_ns, frozenset()))
        now_ns += batch.new_tokens
    times = PrefillTime(steps, ByTokens())
    first, second = Instants(1_000, 1_003, 1_018, 4), Instants(1_003, 1_014, 1_018, 3)
    assert (times.of_ttft_ns(first), times.of_ttft_ns(second)) == (3, 10)
    assert times.of_tpot_ns(first) == pytest.approx(10 / 3)
    assert times.of_tpot_ns(second) == 0
    came_in_the_middle = Instants(1_003 + 5, 1_014, 1_014, 1)
    assert times.of_ttft_ns(came_in_the_middle) == pytest.approx(10 * 6 / 11)
    assert times.of_tpot_ns(came_in_the_middle) == 0
    assert times.of_ttft_ns(Instants(0, 1_003, 1_003, 1)) == 3, "sent before any step"


def test_two_scales_are_found_from_figures_that_are_made_of_both() -> None:
    parts = [
        Part(decodes_ns, prefills_ns, 0.9 * decodes_ns + 1.3 * prefills_ns)
        for decodes_ns, prefills_ns in ((10, 1), (10, 3), (2, 50), (2, 300))
    ]
    scales = fit_scales(parts)
    assert scales is not None
    assert scales.scale == pytest.approx(0.9, abs=0.03)
    assert scales.prefill_scale == pytest.approx(1.3, abs=0.02)
    assert scales.at(110.0, 100.0) == pytest.approx(0.9 * 10 + 1.3 * 100, rel=0.01)
    assert fit_scales(parts[:3]) is None

"""A run beside real ones: what is comparable, what the errors are, and what is shown."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from warpserve.bench.compare.comparable import differences, not_known
from warpserve.bench.compare.comparison import Comparison, NotComparable, compare
from warpserve.bench.compare.curves import curves_of
from warpserve.bench.compare.figures import ks_distance, metrics_of, throughput_of
from warpserve.bench.compare.thresholds import Threshold, ThresholdError, exceeded
from warpserve.bench.real.files import write_run
from warpserve.bench.real.read import read_run
from warpserve.bench.real.schema import Deployment, Request, Run, Sample, Source, Workload
from warpserve.cli import app

SIM = Path(__file__).parent / "data" / "llmservingsim" / "bench"


def request(index: int, scale: float = 1.0, **more: Any) -> Request:
    values: dict[str, Any] = {
        "status": "completed",
        "input_tokens": 100 + index,
        "output_tokens": 11,
        "arrival_s": index * 0.1,
        "ttft_s": scale * (0.05 + 0.001 * (index % 7)),
        "latency_s": scale * (0.15 + 0.001 * (index % 7)),
        "itl_s": (scale * 0.01,) * 10,
    }
    return Request(**values | more)


def run_of(scale: float = 1.0, count: int = 60, **more: Any) -> Run:
    values: dict[str, Any] = {
        "sources": (Source(name="a.json", sha256="0", format="test"),),
        "deployment": Deployment(engine="vllm", model="llama-3.1-8b", gpu="h100-sxm"),
        "requests": tuple(request(index, scale) for index in range(count)),
    }
    return Run(**values | more)


def compared(run: Run, *reals: Run, **options: Any) -> Comparison:
    return compare(run, reals, [f"{n}" for n in range(1 + len(reals))], **options)


def what(run: Run, real: Run) -> dict[str, str]:
    return {difference.what: difference.weight for difference in differences(run, real)}


def test_a_run_is_like_itself() -> None:
    run = read_run(SIM / "RTX4090")
    comparison = compared(run, run)
    assert comparison.differences == []
    for metric in comparison.metrics.values():
        assert metric.ks_distance == 0
        for figure in metric.statistics.values():
            assert (figure.error, figure.error_low, figure.error_high) == (0, 0, 0)
    assert all(figure.error == 0 for figure in comparison.throughput.values())
    assert {curve.distance for curve in comparison.curves.values()} == {0}
    assert set(comparison.curves) == {"running", "waiting", "kv_usage", "started", "awaited"}


def test_an_error_is_that_of_each_figure() -> None:
    metrics = metrics_of(run_of(1.02), [run_of()])
    for name in ("ttft", "tpot", "itl", "latency"):
        for figure in metrics[name].statistics.values():
            assert figure.error == pytest.approx(0.02)
            assert figure.error_low == pytest.approx(0.02)  # the same requests are drawn on both
            assert figure.error_high == pytest.approx(0.02)


def test_intervals_hold_the_error_and_shrink_with_more_requests() -> None:
    draw = np.random.default_rng(1)

    def noisy(count: int) -> Run:
        ttfts = draw.lognormal(-3, 0.5, count)
        rows = (
            request(0, input_tokens=n, ttft_s=t, latency_s=t + 0.1) for n, t in enumerate(ttfts)
        )
        return run_of(requests=tuple(rows))

    widths = []
    for count in (50, 800):
        figure = metrics_of(noisy(count), [noisy(count)])["ttft"].statistics["mean"]
        assert figure.error_low is not None
        assert figure.error_high is not None
        assert figure.error_low < figure.error < figure.error_high
        widths.append(figure.error_high - figure.error_low)
    assert 2.5 < widths[0] / widths[1] < 6  # four, but for chance


def test_the_same_seed_gives_the_same_intervals() -> None:
    run, real = run_of(1.1, count=50), run_of(count=60)
    assert metrics_of(run, [real]) == metrics_of(run, [real])
    assert metrics_of(run, [real], seed=1) != metrics_of(run, [real])


def test_real_runs_show_how_far_they_are_apart() -> None:
    comparison = compared(run_of(1.0), run_of(0.9), run_of(1.1))
    figure = comparison.metrics["tpot"].statistics["mean"]
    assert (figure.error, figure.spread_low, figure.spread_high) == pytest.approx((0, -0.1, 0.1))
    assert figure.error_low is None


def test_ks_distance() -> None:
    values = np.arange(10.0)
    assert ks_distance(values, values) == 0
    assert ks_distance(values, values + 5) == pytest.approx(0.5)
    assert ks_distance(values, values + 100) == 1


def test_beside_a_real_zero_an_error_is_infinite() -> None:
    nothing = run_of(requests=tuple(request(i, ttft_s=0.0) for i in range(60)))
    figure = metrics_of(run_of(), [nothing])["ttft"].statistics["mean"]
    assert math.isinf(figure.error)
    assert metrics_of(nothing, [nothing])["ttft"].statistics["mean"].error == 0


def test_without_requests_the_tools_own_figures_are_compared() -> None:
    reported = {"ttft": {"mean": 0.050, "p99": 0.060}}
    real = run_of(requests=(), reported_s=reported, workload=Workload(num_requests=60))
    metrics = metrics_of(run_of(), [real])
    assert set(metrics["ttft"].statistics) == {"mean", "p99"}
    assert metrics["ttft"].ks_distance is None
    assert "tpot" not in metrics
    assert what(run_of(), real) == {}
    assert what(run_of(count=59), real) == {"number of requests": "refused"}


@pytest.mark.parametrize(
    ("field", "ours", "theirs", "weight"),
    [
        ("model", "llama-3.1-8b", "qwen3-8b", "refused"),
        ("gpu", "h100-sxm", "NVIDIA GeForce RTX 4090", "refused"),
        ("tensor_parallel", 1, 2, "refused"),
        ("quantization", "none", "fp8", "refused"),
        ("engine_version", "0.19.0", "0.24.0", "flagged"),
        ("kv_tokens", 41_408, 50_000, "flagged"),
        ("max_num_seqs", 128, 256, "flagged"),
    ],
)
def test_deployments_that_differ(field: str, ours: Any, theirs: Any, weight: str) -> None:
    run, real = (run_of(deployment=Deployment(**{field: value})) for value in (ours, theirs))
    assert what(run, real) == {field.replace("_", " "): weight}
    assert what(run, run) == {}
    assert what(run, run_of(deployment=Deployment())) == {}  # not said, so it cannot differ


@pytest.mark.parametrize(
    ("ours", "theirs", "name"),
    [
        ({"cache": "cold"}, {"cache": "warm"}, "cache"),
        ({"rate": 4.0}, {"rate": 8.0}, "rate"),
        ({"rate": math.inf}, {"rate": 8.0}, "rate"),
        ({"rate": 4.0, "burstiness": 1.0}, {"rate": 4.0, "burstiness": 0.5}, "burstiness"),
        ({"max_concurrency": 4}, {"max_concurrency": 8}, "max concurrency"),
        ({"client": "vllm bench serve"}, {"max_concurrency": 8}, "max concurrency"),
    ],
)
def test_workloads_that_differ_are_refused(ours: Any, theirs: Any, name: str) -> None:
    run, real = (run_of(workload=Workload(**said)) for said in (ours, theirs))
    assert what(run, real) == {name: "refused"}
    with pytest.raises(NotComparable, match=f"{name}: "):
        compared(run, real)
    assert compared(run, real, force=True).differences[0].weight == "refused"


def test_a_client_that_need_not_say_its_limit_is_not_taken_to_have_none() -> None:
    limited = run_of(workload=Workload(client="warpserve bench", max_concurrency=8))
    for client, is_known in (("aiperf", False), ("sglang.bench_serving", True)):
        real = run_of(workload=Workload(client=client))
        assert what(limited, real) == ({"max concurrency": "refused"} if is_known else {})
        assert ("max concurrency" in not_known(limited, real)) is not is_known


def test_another_temperature_is_flagged() -> None:
    run, real = (run_of(workload=Workload(temperature=said)) for said in (0.0, 0.7))
    assert what(run, real) == {"temperature": "flagged"}
    assert what(run, run_of(workload=Workload())) == {}


def test_other_lengths_are_refused_and_a_few_flagged() -> None:
    real = run_of()
    longer = run_of(requests=tuple(request(i, output_tokens=12) for i in range(60)))
    assert what(longer, real) == {"output tokens, mean": "refused"}
    a_few = tuple(request(i, output_tokens=11 + (i == 3)) for i in range(60))
    assert what(run_of(requests=a_few), real) == {"output tokens, mean": "flagged"}


def test_other_sending_times_are_flagged() -> None:
    late = tuple(request(i, arrival_s=i * 0.12) for i in range(60))
    assert what(run_of(requests=late), run_of()) == {"sending times": "flagged"}


def test_times_that_count_from_queueing_are_counted_from_sending() -> None:
    queued = tuple(request(i, queued_s=i * 0.1 + 0.02) for i in range(60))
    real = run_of(requests=queued, workload=Workload(times_from="queueing"))
    comparison = compared(run_of(), real)
    assert "count from sending" in comparison.notes[0]
    ttft = comparison.metrics["ttft"].statistics["mean"]
    assert ttft.real - ttft.run == pytest.approx(0.02)
    assert comparison.metrics["tpot"].statistics["mean"].error == pytest.approx(0)


def test_throughput() -> None:
    figures = throughput_of(run_of(), [run_of()])
    span_s = 59 * 0.1 + 0.15 + 0.001 * (59 % 7)
    assert figures["makespan"].run == pytest.approx(span_s)
    assert figures["output_tokens"].run == pytest.approx(60 * 11 / span_s)


def test_curves_over_time() -> None:
    samples = tuple(Sample(time_s=t, running=4) for t in range(20))
    fewer = tuple(Sample(time_s=t, running=3) for t in range(20))
    curves = curves_of(run_of(series=fewer), run_of(series=samples))
    assert curves["running"].distance == pytest.approx(0.25)
    assert curves["started"].distance == 0
    assert "kv_usage" not in curves


def test_thresholds() -> None:
    comparison = compared(run_of(1.03), run_of())
    met, missed = Threshold.parse("ttft.p50=4%"), Threshold.parse("tpot.mean=2.5%")
    assert exceeded(comparison, [met]) == []
    assert exceeded(comparison, [met, missed]) == ["tpot.mean: +3.00% is more than 2.50%"]
    assert exceeded(comparison, [Threshold.parse("started=50%")]) == []
    for wrong in ("ttft=2%", "ttft.p50=2", "ttft.p42=2%", "speed.mean=1%"):
        with pytest.raises(ThresholdError, match=r"ttft\.mean"):
            Threshold.parse(wrong)


def test_a_threshold_for_what_is_not_there_does_not_pass() -> None:
    with pytest.raises(ThresholdError, match="at least one run does not have it"):
        exceeded(compared(run_of(), run_of()), [Threshold.parse("kv_usage=1%")])


def command(tmp_path: Path, *options: str) -> Any:
    for name, run in (("run.json", run_of(1.03)), ("real.json", run_of()), ("b.json", run_of())):
        write_run(tmp_path / name, run)
    files = [str(tmp_path / name) for name in ("run.json", "real.json")]
    return CliRunner().invoke(app, ["compare", *files, *options])


def test_the_command(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    result = command(tmp_path, "--html", str(page), "--max-error", "ttft.p50=5%")
    assert result.exit_code == 0, result.output
    assert "+3.00%" in result.output
    text = page.read_text()
    assert text.count("<svg") == 7  # errors, four distributions, two curves
    assert "mean TTFT by +3.0%" in text


def test_the_command_for_programs(tmp_path: Path) -> None:
    result = command(tmp_path, str(tmp_path / "b.json"), "--json")
    document = json.loads(result.stdout)
    assert document["metrics"]["ttft"]["statistics"]["p50"]["error"] == pytest.approx(0.03)
    assert len(document["reals"]) == 2


def test_exit_codes(tmp_path: Path) -> None:
    beyond = command(tmp_path, "--max-error", "ttft.p50=2%")
    assert beyond.exit_code == 1
    assert "ttft.p50: +3.00% is more than 2.00%" in beyond.output
    assert command(tmp_path, "--max-error", "nonsense").exit_code == 2
    write_run(tmp_path / "other.json", run_of(deployment=Deployment(model="qwen3-8b")))
    refused = CliRunner().invoke(
        app, ["compare", str(tmp_path / "other.json"), str(tmp_path / "real.json")]
    )
    assert refused.exit_code == 2
    assert "model: qwen3-8b against llama-3.1-8b" in refused.output

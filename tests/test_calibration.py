"""`warpserve calibrate`: from real runs, whose law is known here, to the numbers of that law."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from warpserve.bench.calibration.fitting import (
    Line,
    Rest,
    fit_frontend,
    fit_prefills,
    fit_steps,
    rests,
    split,
)
from warpserve.bench.calibration.frontends import Span, fit_spans, in_most, spans_of
from warpserve.bench.calibration.observations import (
    FirstToken,
    Observation,
    of_first_tokens,
    of_recording,
    of_tokens,
    prefill_sizes,
)
from warpserve.bench.calibration.prefills import of_prefills
from warpserve.bench.calibration.sampling import Sampled, sampling_of
from warpserve.bench.models import model_named
from warpserve.bench.real.files import write_run
from warpserve.bench.real.read import read_run
from warpserve.bench.real.schema import Deployment as RealDeployment
from warpserve.bench.real.schema import Request, Run, Source, Workload
from warpserve.bench.run_folder import RunError
from warpserve.cli import app
from warpserve.patches.step_log import StepLog
from warpserve.predictors.batch import Batch, Launch, RequestStep, Sampling
from warpserve.predictors.calibration import Calibration, calibration
from warpserve.predictors.captured import SGLANG_PREFILL_SIZES, SIZES, padded_tokens
from warpserve.predictors.deployment import Deployment
from warpserve.predictors.from_catalogue import hardware_of
from warpserve.predictors.predictor import Prediction, PredictorError, Provenance
from warpserve.predictors.prefills import added_by_prefills_ns
from warpserve.predictors.replay import recorded_steps
from warpserve.predictors.spec import Frontend, Options, parse, predictor_of, read_spec

REAL_RUNS = Path(__file__).parent / "data" / "real_runs"
LLAMA = Deployment(model_named("llama-3.1-8b").config(), hardware_of("h100-sxm"), "vllm", "0.24.0")
PLAIN = predictor_of("analytic", LLAMA)
SCALE, HOST_NS, REQUEST_HOST_NS = 1.1, 2e6, 5e6
LAUNCH_HOST_NS = 70_000
OPTIONS = ("--model", "llama-3.1-8b", "--gpu", "h100-sxm", "--predictor", "analytic")


@pytest.mark.parametrize(
    ("workload", "engine", "generation", "chosen"),
    [
        ({}, "vllm", {"temperature": 0.6, "top_p": 0.9}, Sampling.FILTERED),
        ({}, "vllm", {"do_sample": True}, Sampling.RANDOM),
        ({"temperature": 0.0}, "vllm", {"top_p": 0.9}, Sampling.GREEDY),
        ({"temperature": 1.0}, "sglang", {"top_k": 20}, Sampling.FILTERED),
        ({}, "sglang", {"top_k": 20}, Sampling.GREEDY),
    ],
)
def test_tokens_of_a_real_run_were_chosen_as_its_twin_s_will_be(
    workload: dict[str, Any], engine: str, generation: dict[str, Any], chosen: Sampling
) -> None:
    run = Run(
        sources=(Source(name="a", sha256="0", format="test"),),
        deployment=RealDeployment.model_validate({"engine": engine}),
        workload=Workload(**workload),
        requests=(),
    )
    assert sampling_of(run, generation) is chosen
    batch = Batch((RequestStep(1, 100, False),) * 64, 64)
    sampled = Sampled(PLAIN, chosen).predict(batch)
    assert sampled == PLAIN.predict(batch._replace(sampling=chosen))


def test_a_model_says_how_its_tokens_are_chosen(tmp_path: Path) -> None:
    assert model_named("llama-3.1-8b").generation()["top_p"] == 0.9
    (tmp_path / "config.json").write_text("{}")
    assert model_named(str(tmp_path)).generation() == {}


def real_ns(batch: Batch, prefill_scale: float = SCALE) -> float:
    predicted_ns = PLAIN.predict(batch).duration_ns
    added_ns = added_by_prefills_ns(PLAIN, batch, predicted_ns)
    return SCALE * (predicted_ns - added_ns) + prefill_scale * added_ns + HOST_NS


def served(
    arrivals_s: Sequence[float],
    *,
    engine: str = "vllm",
    has_itl: bool = True,
    prefill_scale: float = SCALE,
    schedules_ahead: bool = False,
) -> Run:
    """Requests of 500 and more tokens for 60, by an engine that takes one prompt a step: beside
    decodes, or alone if it is SGLang; who comes while a step runs is in the next, or the one after.
    """
    waiting = [(arrival_s + REQUEST_HOST_NS / 1e9, i) for i, arrival_s in enumerate(arrivals_s)]
    token_s: dict[int, list[float]] = {i: [] for i in range(len(arrivals_s))}
    running: list[int] = []
    now_s = scheduled_s = 0.0
    while waiting or running:
        if not running:
            now_s = scheduled_s = max(now_s, waiting[0][0])
        given = list(running)
        steps = [RequestStep(1, prompt_of(i) + len(token_s[i]) - 1, False) for i in running]
        if waiting and waiting[0][0] <= scheduled_s:
            _, new = waiting.pop(0)
            if engine == "sglang":
                given, steps = [], []
            given.append(new)
            steps.append(RequestStep(prompt_of(new), 0, True))
            running.append(new)
        tokens = sum(step.new_tokens for step in steps)
        is_alone = engine == "sglang" and steps[0].is_prefill
        sizes = SGLANG_PREFILL_SIZES if is_alone else SIZES
        batch = Batch(tuple(steps), padded_tokens(tokens, sizes))
        started_s = now_s
        now_s += real_ns(batch, prefill_scale) / 1e9
        scheduled_s = started_s if schedules_ahead else now_s
        for i in given:
            token_s[i].append(now_s)
        running = [i for i in running if len(token_s[i]) < 60]
    requests = tuple(
        Request(
            status="completed",
            input_tokens=prompt_of(i),
            output_tokens=60,
            arrival_s=arrival_s,
            ttft_s=token_s[i][0] - arrival_s,
            latency_s=token_s[i][-1] - arrival_s,
            itl_s=tuple(b - a for a, b in zip(token_s[i], token_s[i][1:], strict=False))
            if has_itl
            else None,
        )
        for i, arrival_s in enumerate(arrivals_s)
    )
    return Run(
        sources=(Source(name="x", sha256="", format="x"),),
        deployment=RealDeployment.model_validate({"engine": engine}),
        requests=requests,
    )


def prompt_of(index: int) -> int:
    return 500 + 10 * index


ALONE = [float(i) for i in range(10)]
TOGETHER = [20 + 0.01 * i for i in range(30)]


def fitted(run: Run) -> Line:
    return fit_steps(split(of_tokens(run, PLAIN), 8).known)


@pytest.mark.parametrize("has_itl", [True, False])
def test_a_clients_times_give_scale_host_and_what_a_request_takes(has_itl: bool) -> None:
    run = served([*ALONE, *TOGETHER], has_itl=has_itl)
    known, others, what = split(of_tokens(run, PLAIN), 8)
    line = fit_steps(known)
    assert what == "more than 8 requests under way"
    assert max(each.requests for each in others) > 20
    # Decodes alike tell the sum, but hardly its two parts: then a scale near 1 goes.
    assert 1 <= line.scale <= SCALE
    for each in [*known, *others]:
        assert line.at(each.predicted_ns) == pytest.approx(each.measured_ns, rel=0.03)
    alone = of_first_tokens(run, PLAIN)
    assert len(alone) == len(ALONE)
    frontend = fit_frontend(rests(alone, line))
    assert frontend.request_ns == pytest.approx(REQUEST_HOST_NS, rel=0.15)
    assert frontend.prompt_token_ns == 0


OVERLAPPING = [30 + 0.12 * i for i in range(24)]


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
@pytest.mark.parametrize("prefill_scale", [0.8, 1.4])
def test_a_clients_times_tell_prefills_by_who_decodes_meanwhile(
    tmp_path: Path, engine: str, prefill_scale: float
) -> None:
    run = served([*ALONE, *OVERLAPPING], engine=engine, prefill_scale=prefill_scale)
    line = fitted(run)
    found = of_prefills(run, PLAIN)
    assert len(found) > 15
    assert fit_prefills(found, line) == pytest.approx(prefill_scale, rel=0.05)
    write_run(tmp_path / "real.json", run)
    version = {"vllm": "0.24.0", "sglang": "0.5.23"}[engine]
    of_engine = ("--engine", f"{engine}=={version}")
    result = calibrate(str(tmp_path / "real.json"), *OPTIONS, *of_engine, "--json")
    assert result.exit_code == 0, result.output
    said = json.loads(result.stdout)
    options = parse(said["spec"]).options
    assert options.prefill_scale == pytest.approx(prefill_scale, rel=0.05)
    assert options.frontend.request_ns == pytest.approx(REQUEST_HOST_NS, rel=0.25)
    assert "of them with prefills" in said["fitted_on"]
    calibrated = predictor_of(said["spec"], LLAMA)
    decodes = (RequestStep(1, 800, False),) if engine == "vllm" else ()
    prompt = Batch((*decodes, RequestStep(704, 0, True)), 704 + len(decodes))
    expected_ns = real_ns(prompt, prefill_scale)
    assert calibrated.predict(prompt).duration_ns == pytest.approx(expected_ns, rel=0.02)


# Not in step with the decodes of any.
SCATTERED = [30 + 0.1187 * i for i in range(24)]


@pytest.mark.parametrize(("schedules_ahead", "version"), [(False, "0.13.0"), (True, "0.24.0")])
def test_the_steps_that_prompts_got_into_tell_what_a_request_takes(
    tmp_path: Path, schedules_ahead: bool, version: str
) -> None:
    run = served(SCATTERED, schedules_ahead=schedules_ahead)
    assert of_first_tokens(run, PLAIN)[1:] == [], "none but the first was alone"
    of_version = RealDeployment(engine="vllm", engine_version=version)
    found = fit_spans(spans_of(run.model_copy(update={"deployment": of_version})))
    assert found is not None
    assert found.request_ns == pytest.approx(REQUEST_HOST_NS, rel=0.1)
    assert found.prompt_token_ns == 0
    said = RealDeployment(engine="vllm", arguments={"async_scheduling": schedules_ahead})
    told = run.model_copy(update={"deployment": said})
    assert fit_spans(spans_of(told)) == found
    others = run.model_copy(update={"requests": run.requests[1:]})
    write_run(tmp_path / "real.json", others.model_copy(update={"deployment": said}))
    result = calibrate(str(tmp_path / "real.json"), *OPTIONS, "--json")
    assert result.exit_code == 0, result.output
    written = json.loads(result.stdout)
    assert "which steps prompts got into" in written["fitted_on"]
    frontend = parse(written["spec"]).options.frontend
    assert frontend.request_ns == pytest.approx(REQUEST_HOST_NS, rel=0.1)


@pytest.mark.parametrize(
    "deployment",
    [
        {"engine": "sglang"},
        {"pipeline_parallel": 2},
        {"max_num_batched_tokens": 100},
        {"engine": None},
        {"engine_version": None},
        {"engine_version": "main"},
    ],
)
def test_other_steps_do_not_tell_what_a_request_takes(deployment: dict[str, Any]) -> None:
    known = {"engine": "vllm", "engine_version": "0.13.0"}
    run = served(SCATTERED)
    assert spans_of(run.model_copy(update={"deployment": RealDeployment.model_validate(known)}))
    other = RealDeployment.model_validate(known | deployment)
    assert spans_of(run.model_copy(update={"deployment": other})) == []


@pytest.mark.parametrize("token_ns", [0, 5_000])
def test_spans_of_long_prompts_tell_what_a_token_takes(token_ns: int) -> None:
    lengths = [1_000 * (1 + i % 8) for i in range(60)]
    taken_s = [0.004 + 1e-9 * token_ns * tokens for tokens in lengths]
    late_s = [0.01 * (i * 0.618 % 1) for i in range(60)]
    spans = [
        Span(taken - late, taken - late + 0.01, tokens)
        for tokens, taken, late in zip(lengths, taken_s, late_s, strict=True)
    ]
    found = fit_spans(spans)
    assert found is not None
    assert found.request_ns == pytest.approx(4e6, abs=1e6)
    assert found.prompt_token_ns == pytest.approx(token_ns, abs=300)


def test_spans_that_disagree_tell_nothing() -> None:
    assert in_most([Span(1, 5), Span(-2, 4), Span(3, 9), Span(20, 21)]) == Span(3, 4)
    assert in_most([Span(-1, 2)]) == Span(0, 2)
    late = [f.model_copy(update={"arrival_s": (f.arrival_s or 0) - 0.03 * (i % 4), "ttft_s":
            (f.ttft_s or 0) + 0.03 * (i % 4), "latency_s": (f.latency_s or 0) + 0.03 * (i % 4)})
            for i, f in enumerate(served(SCATTERED).requests)]  # fmt: skip
    known = RealDeployment(engine="vllm", engine_version="0.13.0")
    run = served(SCATTERED).model_copy(update={"requests": tuple(late), "deployment": known})
    assert fit_spans(spans_of(run)) is None
    assert fit_spans([Span(1, 2)] * 4) is None


def test_prompts_that_wait_together_may_have_been_cut() -> None:
    run = served([20.0, 20.05, 20.051, 20.052])
    whole = RealDeployment(max_num_batched_tokens=8_192)
    cut = RealDeployment(max_num_batched_tokens=512)
    assert len(of_prefills(run.model_copy(update={"deployment": whole}), PLAIN)) == 3
    assert of_prefills(run.model_copy(update={"deployment": cut}), PLAIN) == []


def test_prefills_of_sglang_s_are_padded_to_graphs_of_their_own() -> None:
    known: dict[str, Any] = {"engine": "sglang", "cuda_graph_sizes": (1, 2, 4)}
    config = {"prefill": {"backend": "breakable", "bs": [16, 32]}}
    for arguments, sizes in (
        ({}, SGLANG_PREFILL_SIZES),
        ({"cuda_graph_config": config}, (16, 32)),
        ({"cuda_graph_config": {"prefill": {"backend": "disabled", "bs": [16]}}}, ()),
        ({"disable_cuda_graph": True}, ()),
    ):
        assert prefill_sizes(RealDeployment(**known, arguments=arguments)) == sizes
    assert prefill_sizes(RealDeployment(engine="vllm", cuda_graph_sizes=(4, 2))) == [2, 4]


def test_steps_of_both_kinds_are_not_taken_for_each_other() -> None:
    """``--enable-mixed-chunk``, or a run that does not say its engine."""
    mixed = served(OVERLAPPING)
    of_sglang = RealDeployment.model_validate({"engine": "sglang"})
    assert of_prefills(mixed, PLAIN)
    assert of_prefills(mixed.model_copy(update={"deployment": of_sglang}), PLAIN) == []
    apart = served(OVERLAPPING, engine="sglang")
    assert of_prefills(apart, PLAIN)
    assert of_prefills(apart.model_copy(update={"deployment": RealDeployment()}), PLAIN) == []


def test_without_the_times_of_tokens_nobody_was_seen_to_wait() -> None:
    assert of_prefills(served(OVERLAPPING, has_itl=False), PLAIN) == []


def test_prompts_of_a_prefix_cache_tell_nothing_of_a_gpu(tmp_path: Path) -> None:
    """Those of the second file are those of the first, which the same server has had before."""
    first, second = (read_run(REAL_RUNS / f"vllm{name}.json.gz") for name in ("", "-concurrency"))
    for each in of_prefills(first, PLAIN):
        assert each.predicted_ns == pytest.approx(each.measured_ns, rel=0.005)
    assert all(each.predicted_ns > 1.05 * each.measured_ns for each in of_prefills(second, PLAIN))
    long = tuple(each.model_copy(update={"input_tokens": 2_000}) for each in second.requests)
    write_run(tmp_path / "real.json", second.model_copy(update={"requests": long}))
    result = calibrate(str(tmp_path / "real.json"), *OPTIONS)
    assert result.exit_code == 0, result.output
    assert "no scale of a GPU; did the prefix cache have the prompts?" in result.output
    assert "prefill_scale=" not in result.output


def test_one_by_one_it_need_not_be_said_when_they_were_sent() -> None:
    run = served(ALONE)
    requests = tuple(each.model_copy(update={"arrival_s": None}) for each in run.requests)
    run = run.model_copy(update={"requests": requests})
    with pytest.raises(RunError, match="does not say when its requests were sent"):
        of_tokens(run, PLAIN)
    run = run.model_copy(update={"workload": Workload(max_concurrency=1)})
    assert fitted(run).at(6e6) == pytest.approx(SCALE * 6e6 + HOST_NS, rel=0.01)
    assert len(of_first_tokens(run, PLAIN)) == len(ALONE)


def test_steps_that_gave_several_tokens_tell_nothing() -> None:
    run = served(ALONE)
    drafted = tuple(r.model_copy(update={"itl_s": (r.itl_s or ())[::2]}) for r in run.requests)
    assert of_tokens(run.model_copy(update={"requests": drafted}), PLAIN) == []


@pytest.mark.parametrize("has_itl", [True, False])
def test_tokens_that_came_at_once_tell_nothing(has_itl: bool) -> None:
    run = served([*ALONE, *OVERLAPPING], has_itl=has_itl)

    def at_once(request: Request) -> Request:
        itl_s = (0.0,) * 59 if has_itl else None
        return request.model_copy(update={"latency_s": request.ttft_s, "itl_s": itl_s})

    changed = [at_once(r) if i in (3, 15) else r for i, r in enumerate(run.requests)]
    found = run.model_copy(update={"requests": tuple(changed)})
    for each in [*of_tokens(found, PLAIN), *of_prefills(found, PLAIN)]:
        assert each.measured_ns > 0
    assert len(of_tokens(found, PLAIN)) > 0


def test_without_more_concurrency_the_end_of_the_run_is_held_out() -> None:
    observations = [Observation(2, 1e6 * i, 2e6 * i) for i in range(1, 11)]
    known, others, what = split(observations, 8)
    assert (len(known), len(others), what) == (8, 2, "the last fifth of the run")
    with pytest.raises(RunError, match="too few"):
        split(observations[:3], 8)


def test_pauses_of_the_host_are_no_steps() -> None:
    steps = [Observation(1, 5e6 + 1e5 * i, 6e6 + 1e5 * i) for i in range(30)]
    line = fit_steps([*steps, Observation(1, 5e6, 300e6)])
    assert line.at(6e6) == pytest.approx(7e6, rel=0.02)


def test_prompts_that_may_have_been_cut_say_nothing_of_first_tokens() -> None:
    request = served([0.0]).requests[0].model_copy(update={"input_tokens": 5_000})
    run = served([0.0]).model_copy(update={"requests": (request,)})
    assert of_first_tokens(run, PLAIN) == []
    told = RealDeployment(max_num_batched_tokens=2_000)
    (first,) = of_first_tokens(run.model_copy(update={"deployment": told}), PLAIN)
    assert first.steps == 3


def test_what_a_request_takes_is_what_its_steps_do_not() -> None:
    assert rests([], Line(1, 0)) == []
    (rest,) = rests([FirstToken(2, 10e6, 15e6, prompt_tokens=900)], Line(1.1, 1e6))
    assert rest.ns == pytest.approx(2e6)
    assert fit_frontend([rest]) == Frontend(2_000_000, 0)


LENGTHS = [100 * i for i in range(1, 40)]


@pytest.mark.parametrize(
    ("of_requests", "request_ns", "prompt_token_ns"),
    [
        ([Rest(n, 2e6 + 5e3 * n) for n in LENGTHS], 2e6, 5e3),
        ([Rest(n, 2e6 + 5e3 * n + 2e5 * (-1) ** (n // 100)) for n in LENGTHS], 2e6, 5e3),
        ([Rest(3_000, 900e6), *(Rest(n, 2e6 + 5e3 * n) for n in LENGTHS)], 2e6, 5e3),
        ([Rest(n, 2e6 + 5e3 * n) for n in range(1_000, 1_250, 10)], 7.6e6, 0),
        ([Rest(n, 30e6 - 5e3 * n) for n in LENGTHS], 20e6, 0),
        ([Rest(n, 5e3 * (n - 50)) for n in LENGTHS], 0, 4.9e3),
    ],
    ids=["even", "noisy", "with a pause", "prompts alike", "falling", "below 0 at none"],
)
def test_what_tokens_of_a_prompt_take_is_found_from_prompts_of_different_lengths(
    of_requests: list[Rest], request_ns: float, prompt_token_ns: float
) -> None:
    found = fit_frontend(of_requests)
    assert found.request_ns == pytest.approx(request_ns, rel=0.11)
    assert found.prompt_token_ns == pytest.approx(prompt_token_ns, rel=0.02)


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """Steps with gaps between them, which the host fills."""
    folder = tmp_path / "recording"
    (folder / "steps").mkdir(parents=True)
    said = {
        "engine": "vllm",
        "engine_version": "0.24.0",
        "gpu": {"name": "NVIDIA H100 80GB HBM3"},
        "kv_cache": {"blocks": 1_000, "block_tokens": 16},
    }
    (folder / "recording-1.json").write_text(json.dumps(said))
    (folder / "engine.log").write_text("vLLM API server version 0.24.0\n")
    log, now_ns = StepLog.in_folder(folder / "steps"), 0
    for step in range(200):
        count = 1 + step % 20
        is_prefill = step % 10 == 3
        new_tokens = 2_000 if is_prefill else 1
        requests = (RequestStep(new_tokens, 500 + 20 * step, is_prefill),) * count
        batch = Batch(requests, padded_tokens(count * new_tokens))
        duration_ns = round(SCALE * PLAIN.predict(batch).duration_ns)
        names = ["0", *map(str, range(100, 99 + count))]
        end_ns = now_ns + duration_ns
        log.write(batch, names, Prediction(duration_ns, Provenance.MEASURED), now_ns, end_ns)
        now_ns = end_ns + round(HOST_NS)
    return folder


def test_a_recordings_steps_last_until_the_next(recording: Path) -> None:
    known = split(of_recording(recorded_steps(str(recording)), PLAIN), 8).known
    line = fit_steps(known)
    assert fit_prefills(known, line) == pytest.approx(SCALE, rel=0.01)
    assert line.scale == pytest.approx(SCALE, rel=0.01)
    assert line.host_ns == pytest.approx(HOST_NS, rel=0.05)


# The command and its file


def calibrate(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["calibrate", *arguments])


def test_the_command_writes_a_predictor(recording: Path, tmp_path: Path) -> None:
    file = tmp_path / "h100.json"
    result = calibrate(str(recording), *OPTIONS, "--out", str(file))
    assert result.exit_code == 0, result.output
    assert "held out" in result.stdout
    assert "what a request takes beside its steps is unknown" in result.stdout
    found = calibration(str(file))
    assert found.held_out_worst is not None
    assert found.held_out_worst < 0.02
    batch = Batch((RequestStep(1, 800, False),) * 4, 4)
    calibrated = predictor_of(f"calibrated:{file}", LLAMA)
    assert calibrated.predict(batch).duration_ns == pytest.approx(real_ns(batch), rel=0.01)


def test_a_recording_and_its_client_tell_all(recording: Path, tmp_path: Path) -> None:
    write_run(tmp_path / "client.json", served(ALONE))
    result = calibrate(str(recording), str(tmp_path / "client.json"), *OPTIONS, "--json")
    assert result.exit_code == 0, result.output
    options = parse(json.loads(result.stdout)["spec"]).options
    assert options.scale == pytest.approx(SCALE, rel=0.01)
    assert options.host_ns == pytest.approx(HOST_NS, rel=0.05)
    assert options.frontend.request_ns == pytest.approx(REQUEST_HOST_NS, rel=0.1)


def test_launches_are_found_from_the_eager_steps_that_wait_for_them(recording: Path) -> None:
    log, now_ns = StepLog.in_folder(recording / "steps", "1"), 10**12
    for step in range(40):
        new_tokens = 20 if step % 2 else 8_000
        batch = Batch((RequestStep(new_tokens, 0, True),), new_tokens, launch=Launch.EAGER)
        gpu_ns = round(SCALE * PLAIN.predict(batch._replace(launch=Launch.GRAPH)).duration_ns)
        duration_ns = max(gpu_ns, 320 * LAUNCH_HOST_NS)
        prediction = Prediction(duration_ns, Provenance.MEASURED)
        log.write(batch, [str(step)], prediction, now_ns, now_ns + duration_ns)
        now_ns += 10**9
    result = calibrate(str(recording), *OPTIONS, "--json")
    assert result.exit_code == 0, result.output
    options = parse(json.loads(result.stdout)["spec"]).options
    assert options.launch_ns == LAUNCH_HOST_NS
    assert options.scale == pytest.approx(SCALE, rel=0.01), "without the eager steps"
    assert options.host_ns == pytest.approx(HOST_NS, rel=0.05)


def test_a_recording_is_imported(recording: Path) -> None:
    run = read_run(recording)
    assert len(run.steps) == 200
    assert run.steps[0].start_s == 0
    assert run.deployment.gpu == "NVIDIA H100 80GB HBM3"
    assert (run.deployment.engine_version, run.deployment.kv_tokens) == ("0.24.0", 16_000)


def test_the_command_reads_what_import_wrote(tmp_path: Path) -> None:
    write_run(tmp_path / "real.json", served([*ALONE, *TOGETHER]))
    result = calibrate(str(tmp_path / "real.json"), *OPTIONS, "--json")
    assert result.exit_code == 0, result.output
    options = parse(json.loads(result.stdout)["spec"]).options
    assert options.host_ns > 1e6
    assert options.frontend.request_ns == pytest.approx(REQUEST_HOST_NS, rel=0.15)


@pytest.mark.parametrize("name", ["vllm.json.gz", "vllm-concurrency.json.gz"])
def test_batches_are_those_of_an_engine_by_its_clients_times_alone(name: str) -> None:
    """Of a vLLM whose steps the same predictor has timed: it finds them again."""
    run = read_run(REAL_RUNS / name)
    observations = of_tokens(run, PLAIN)
    assert len(observations) > 20
    for each in observations:
        assert each.predicted_ns == pytest.approx(each.measured_ns, rel=0.005)
    for first in of_first_tokens(run, PLAIN):
        assert first.predicted_ns == pytest.approx(first.measured_ns, rel=0.005)


def test_what_a_vllm_was_told_is_found_in_its_clients_times() -> None:
    """Of requests of which none was alone."""
    result = calibrate(str(REAL_RUNS / "vllm-calibrated.json.gz"), *OPTIONS, "--json")
    assert result.exit_code == 0, result.output
    said = json.loads(result.stdout)
    assert said["held_out_worst"] < 0.002
    options = parse(said["spec"]).options
    assert options.scale == pytest.approx(1.1, rel=0.03)
    assert options.prefill_scale == pytest.approx(1.4, rel=0.001)
    assert options.host_ns == pytest.approx(1e6, rel=0.2), "decodes alike hardly tell it from scale"
    assert options.frontend.request_ns == pytest.approx(4e6, rel=0.05)
    assert options.frontend.prompt_token_ns == pytest.approx(6_000, rel=0.05)


def test_first_tokens_that_came_too_soon_say_nothing(tmp_path: Path) -> None:
    run = served([*ALONE, *TOGETHER])
    cached = tuple(each.model_copy(update={"ttft_s": 0.006}) for each in run.requests[:10])
    requests = (*cached, *run.requests[10:])
    write_run(tmp_path / "real.json", run.model_copy(update={"requests": requests}))
    result = calibrate(str(tmp_path / "real.json"), *OPTIONS)
    assert result.exit_code == 0, result.output
    assert "sooner than their steps take; the prefix cache had them" in result.stdout
    assert "request_host=" not in result.stdout


def test_the_command_says_what_is_wrong(tmp_path: Path) -> None:
    write_run(tmp_path / "real.json", served(TOGETHER).model_copy(update={"requests": ()}))
    of_two = RealDeployment(tensor_parallel=2)
    write_run(tmp_path / "tp2.json", served(ALONE).model_copy(update={"deployment": of_two}))
    write_run(tmp_path / "sglang.json", served(ALONE, engine="sglang"))
    write_run(tmp_path / "dp.json", served(TOGETHER))
    for arguments, said in (
        ((str(tmp_path / "real.json"), *OPTIONS), "no completed requests"),
        ((str(tmp_path / "absent"), *OPTIONS), "does not exist"),
        ((str(tmp_path), *OPTIONS[:-1], "analytic:scale=2"), "are what is to be found"),
        ((str(tmp_path / "tp2.json"), *OPTIONS), "the run says tensor_parallel 2, and not 1"),
        ((str(tmp_path / "sglang.json"), *OPTIONS), "the run says engine sglang, and not vllm"),
        ((str(tmp_path / "dp.json"), *OPTIONS, "--dp", "2"), "which of the replicas a request"),
    ):
        result = calibrate(*arguments)
        assert result.exit_code == 2
        assert said in result.output


@pytest.mark.parametrize(
    ("said", "wrong"),
    [
        ({"model": "Qwen/Qwen3-32B"}, "says model Qwen/Qwen3-32B, and not llama-3.1-8b"),
        ({"gpu": "NVIDIA GeForce RTX 4090"}, "says gpu NVIDIA GeForce RTX 4090, and not h100-sxm"),
        ({"engine_version": "0.19.0"}, "says engine_version 0.19.0, and not 0.24.0"),
        ({"data_parallel": 2}, "says data_parallel 2, and not 1"),
        ({"expert_parallel": True}, "says expert_parallel True, and not False"),
        ({"quantization": "fp8"}, "says quantization fp8, and not weights in bf16"),
        ({"gpu": "NVIDIA H100 80GB HBM3", "model": "meta-llama/Llama-3.1-8B-Instruct"}, None),
        ({"engine_version": "0.24.0+cu130", "quantization": "none"}, None),
    ],
)
def test_a_run_of_another_deployment_is_refused(
    tmp_path: Path, said: dict[str, Any], wrong: str | None
) -> None:
    deployment = RealDeployment.model_validate({"engine": "vllm"} | said)
    run = served([*ALONE, *TOGETHER]).model_copy(update={"deployment": deployment})
    write_run(tmp_path / "real.json", run)
    result = calibrate(str(tmp_path / "real.json"), *OPTIONS, "--engine", "vllm==0.24.0")
    assert result.exit_code == (0 if wrong is None else 2), result.output
    assert wrong is None or f"the run {wrong}: say another --" in result.output


@pytest.mark.parametrize("quantization", ["experts_int8", "int8_per_channel_weight_only"])
def test_a_run_with_its_experts_in_int8_is_calibrated_as_one(
    tmp_path: Path, quantization: str
) -> None:
    deployment = RealDeployment(engine="vllm", quantization=quantization)
    run = served([*ALONE, *TOGETHER]).model_copy(update={"deployment": deployment})
    write_run(tmp_path / "real.json", run)
    result = calibrate(str(tmp_path / "real.json"), *OPTIONS, "--weights", "experts_int8")
    assert result.exit_code == 0, result.output


def test_the_engine_is_the_run_s_where_none_is_said(tmp_path: Path) -> None:
    deployment = RealDeployment(engine="vllm", engine_version="0.19.0+cu128")
    run = served([*ALONE, *TOGETHER]).model_copy(update={"deployment": deployment})
    write_run(tmp_path / "real.json", run)
    result = calibrate(str(tmp_path / "real.json"), *OPTIONS, "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["deployment"] == "llama-3.1-8b on h100-sxm, vllm==0.19.0"


@pytest.mark.parametrize(
    "text", ["", "{}", '{"spec": "analytic"}', "[]", json.dumps({"spec": "calibrated:x"})]
)
def test_a_calibration_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "file").write_text(text)
    with pytest.raises(PredictorError, match="file"):
        read_spec(f"calibrated:{tmp_path / 'file'}")


def test_a_calibration_of_a_calibration_is_refused(tmp_path: Path) -> None:
    none = Calibration("calibrated:x", "", "", "", "", None, None)
    (tmp_path / "file").write_text(none.to_json())
    with pytest.raises(PredictorError, match="names no predictor"):
        read_spec(f"calibrated:{tmp_path / 'file'}")


def test_options_come_behind_a_path(tmp_path: Path) -> None:
    log = StepLog.in_folder(tmp_path)
    batch = Batch((RequestStep(1, 5, False),), 1)
    log.write(batch, ["a"], Prediction(1_000, Provenance.MEASURED), 0, 1_000)
    spec = f"replay:{tmp_path},scale=2,host=1us,request_host=3ms,prompt_token_host=7ns"
    assert parse(spec) == (
        "replay",
        str(tmp_path),
        Options(scale=2.0, host_ns=1_000, frontend=Frontend(3_000_000, 7)),
    )
    assert predictor_of(spec, LLAMA).predict(batch).duration_ns == 3_000

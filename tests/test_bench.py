"""Experiments without an engine: what is sent, and what is made of the answers."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import yaml
from typer.testing import CliRunner

from warpserve.bench import clients
from warpserve.bench.cli import split_arguments
from warpserve.bench.config import ConfigError, EngineConfig, RunConfig
from warpserve.bench.engine import EngineEnded, RunningEngine
from warpserve.bench.experiment import _Ends, planned_of, run_experiment
from warpserve.bench.host_cost import HostMeter, ProcessCost
from warpserve.bench.kv_cache import kv_tokens_of_file
from warpserve.bench.models import model_named
from warpserve.bench.predictions import PredictedSteps
from warpserve.bench.report.page import write_report
from warpserve.bench.report.timeline import output_tokens_per_s, read_samples, sampled
from warpserve.bench.report.trace import write_trace
from warpserve.bench.results import RequestResult, read_vllm_results
from warpserve.bench.run_folder import RunError, RunFolder
from warpserve.bench.servers import server_command, vllm_serve
from warpserve.bench.summary import Serving, Spread, Summary, summarise
from warpserve.bench.workload import Planned, Request
from warpserve.cli import app
from warpserve.timekeeper.control import Exited
from warpserve.timekeeper.launcher import RunningSession
from warpserve.timekeeper.state import SessionState

RUN = {"model": "llama-3.1-8b", "gpu": "h100-sxm:1", "predictor": "constant:10ms"}


def request(index: int, ttft_s: float | None = 0.02, **more: Any) -> RequestResult:
    values: dict[str, Any] = {
        "index": index,
        "start_s": float(index),
        "input_tokens": 100,
        "output_tokens": 3,
        "ttft_s": ttft_s,
        "itl_s": (0.01, 0.01),
        "error": None,
    }
    return RequestResult(**values | more)


def summary_of_two() -> Summary:
    spread = Spread.of([0.02, 0.02])
    cost = ProcessCost(name="server", cpu_s=0.5, resident_bytes=3 * 2**20)
    host = Summary.Host(
        wall_s=1,
        virtual_s=20,
        advances=3,
        warnings={"busy_wait": 1},
        serving=Serving(wall_s=1, steps=4, processes=[cost]),
    )
    return Summary(
        sent=2,
        completed=2,
        failed=0,
        ttft=spread,
        tpot=None,
        itl=None,
        latency=spread,
        predicted_steps=PredictedSteps.read(Path("no steps")),
        host=host,
    )


def test_an_experiment_is_read_from_a_file_and_the_command_line(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(yaml.safe_dump(RUN | {"rate": 2, "seed": 5}))
    config = RunConfig.read(path, rate=8.0, seed=None)
    assert (config.rate, config.seed, config.model) == (8.0, 5, "llama-3.1-8b")
    again = RunConfig.model_validate(yaml.safe_load(yaml.safe_dump(config.model_dump(mode="json"))))
    assert again == config


@pytest.mark.parametrize(
    ("said", "complaint"),
    [
        ({"rate": 0}, "rate: .*greater than 0"),
        ({"rate": -1}, "rate: .*greater than 0"),
        ({"rate": "nan"}, "rate: "),
        ({"arrival": "gama:0.5"}, "no arrival 'gama:0.5': say poisson, gamma:BURSTINESS, "),
        ({"arrival": "trace", "rate": 2}, "times of its own .--rate-scale makes it faster"),
        ({"arrival": "closed:4", "rate": 2}, "rate: the arrival closed has times of its own"),
        ({"arrival": "closed:4", "max_concurrency": 2}, "max_concurrency: .*says it already"),
        ({"rate_scale": 2}, "rate_scale: is for the arrival trace, not poisson"),
        ({"arrival": "trace", "rate_scale": 0}, "rate_scale: .*greater than 0"),
        ({"arrival": "trace", "rate_scale": "nan"}, "rate_scale: "),
        ({"client": "mine"}, "client: .*'stock' or 'own'"),
        ({"num_requests": 0}, "num_requests: "),
        ({"engine": "trt-llm==1.0", "engine_python": "python"}, "engine: .*no such engine"),
        ({"acceptance": "0.8"}, "acceptance: is of drafts: say --speculative-config"),
        ({"seed": 2**32}, "seed: .*less than or equal to 4294967295"),
        ({"moddel": "x"}, "moddel is not known; known are engine, "),
        ({"gpu": None}, "gpu is missing"),
        ({"fast": True, "clock": "live"}, "fast needs the clock `exact`"),
        ({"fast": True, "engine_flags": ["--stream-interval", "4"]}, "with --stream-interval"),
        ({"fast": True, "engine_flags": ["--speculative-config.method=x"]}, "--speculative-config"),
        ({"fast": True, "engine_flags": ["--stream_interval=4"]}, "with --stream-interval"),
        (
            {"fast": True, "engine_flags": ["--speculative-algo", "EAGLE"]},
            "--speculative-algorithm",
        ),
        ({"fast": True, "engine_flags": ["--spec-method", "ngram"]}, "with --spec-method"),
        ({"fast": True, "engine_flags": ["--config", "x.yaml"]}, "say them without --config"),
    ],
)
def test_mistakes_in_an_experiment_are_named(said: dict[str, Any], complaint: str) -> None:
    values = {name: value for name, value in (RUN | said).items() if value is not None}
    with pytest.raises(ConfigError, match=complaint):
        RunConfig.read(None, **values)


@pytest.mark.parametrize(
    ("text", "complaint"), [(b"\xff", "cannot read"), (b"1: x", "names and values are needed")]
)
def test_a_file_that_is_no_experiment_is_refused(
    tmp_path: Path, text: bytes, complaint: str
) -> None:
    path = tmp_path / "run.yaml"
    path.write_bytes(text)
    with pytest.raises(ConfigError, match=complaint):
        RunConfig.read(path)


@pytest.mark.parametrize(
    ("said", "engine", "name"),
    [
        ("SGLang==0.5.23", "sglang==0.5.23", "sglang"),
        ("vLLM == 0.24.0", "vllm==0.24.0", "vllm"),
        ("VLLM", "vllm", "vllm"),
    ],
)
def test_an_engine_has_one_spelling(said: str, engine: str, name: str) -> None:
    config = EngineConfig.of(**RUN, engine=said, engine_python="python")
    assert (config.engine, config.engine_name) == (engine, name)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--model", "lama"], "lama"),
        (["--gpu", "h1000"], "h1000"),
        (["--predictor", "magic"], "magic"),
        (["--engine", "vllm==0.0.1"], "vllm==0.0.1 is not installed"),
        (["--workload", "nothing.csv"], "nothing.csv"),
    ],
)
def test_what_is_not_there_is_said_before_anything_starts(
    tmp_path: Path, options: list[str], complaint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    python = tmp_path / "bin" / "python"
    said = RUN | {"engine-python": str(python), "out": str(tmp_path / "out")}
    flags = [part for name, value in said.items() for part in (f"--{name}", value)]
    if options[0] == "--engine":
        flags = flags[: flags.index("--engine-python")] + flags[flags.index("--out") :]
    outcome = CliRunner().invoke(app, ["bench", *flags, *options])
    assert outcome.exit_code == 2
    assert complaint in outcome.output
    assert not (tmp_path / "out").exists()


def test_an_engine_s_python_is_run_as_given_before_there_is_a_folder(tmp_path: Path) -> None:
    python = tmp_path / "python3.11"
    python.write_text("#!/bin/sh\necho no such thing >&2\nexit 1\n")
    python.chmod(0o755)
    said = RUN | {"engine": "sglang==0.5.23", "engine_python": python}
    with pytest.raises(ConfigError, match=f"{python} ends with an error: no such thing"):
        run_experiment(RunConfig.of(**said, num_requests=1), tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "run", "flags"),
    [
        ([], None, []),
        (["run.yaml"], Path("run.yaml"), []),
        (["--max-num-seqs", "8"], None, ["--max-num-seqs", "8"]),
        (["run.yaml", "-tp", "2"], Path("run.yaml"), ["-tp", "2"]),
    ],
)
def test_engine_flags_are_told_from_the_experiment_s_file(
    arguments: list[str], run: Path | None, flags: list[str]
) -> None:
    assert split_arguments(arguments) == (run, flags)


def serve_command(flags: tuple[str, ...], gpus: int = 1, **said: Any) -> list[str]:
    config = EngineConfig.of(**RUN, engine_flags=flags, **said)
    return vllm_serve(config, python=Path("bin/python"), model="m", port=1, gpus=gpus)


def test_all_gpus_work_together_unless_the_flags_divide_them() -> None:
    assert serve_command((), gpus=2)[-2:] == ["--tensor-parallel-size", "2"]
    assert serve_command(("-dp=2",), gpus=2)[-1] == "-dp=2"
    assert "--tensor-parallel-size" not in serve_command(())


@pytest.mark.parametrize(
    "flag", ["--tensor_parallel_size", "--tensor-parallel", "--pipeline_parallel_size", "--config"]
)
def test_flags_are_known_however_the_engine_lets_them_be_written(flag: str) -> None:
    assert serve_command((flag, "2"), gpus=8)[-2:] == [flag, "2"]


@pytest.mark.parametrize(
    ("flags", "blocks"),
    [
        ((), "118146"),
        (("--block_size", "32"), "59073"),
        (("--block-size=16", "--block-size=32"), "59073"),
    ],
)
def test_a_real_server_s_kv_cache_becomes_blocks(
    tmp_path: Path, flags: tuple[str, ...], blocks: str
) -> None:
    log = tmp_path / "vllm.log"
    lines = [
        "INFO [x.py:1] GPU KV cache size: 1,890,400 tokens",
        "… GPU KV cache size: 1,890,336 tokens",
    ]
    log.write_text("\n".join(lines))
    command = serve_command(flags, kv_tokens=kv_tokens_of_file(log))
    assert command[-2:] == ["--num-gpu-blocks-override", blocks]


@pytest.mark.parametrize(
    ("said", "complaint"),
    [
        ({}, "1000 is no multiple of 16, the tokens of a block: say --block-size"),
        ({"engine_flags": ("--block-size", "auto")}, "--block-size auto is no number"),
        ({"engine_flags": ("--block-size=0",)}, "--block-size 0 is no number"),
        (
            {"engine": "sglang==0.5.23", "engine_flags": ("--page-size", "64")},
            "no multiple of 64, the tokens of a block: say --page-size",
        ),
    ],
)
def test_a_kv_cache_of_no_whole_number_of_blocks_is_refused(
    said: dict[str, Any], complaint: str
) -> None:
    config = EngineConfig.of(**RUN, **said, kv_tokens=1_000)
    with pytest.raises(ConfigError, match=f"kv_tokens: .*{complaint}"):
        server_command(config, python=Path("bin/python"), model="m", port=1, gpus=1)


def test_a_log_without_the_size_of_a_kv_cache_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty.log").touch()
    for name, complaint in (
        ("empty.log", "has no line `GPU KV cache size"),
        ("none", "cannot read"),
    ):
        with pytest.raises(ConfigError, match=complaint):
            kv_tokens_of_file(tmp_path / name)


def test_a_meter_counts_the_processor_of_those_below_a_process() -> None:
    meter = HostMeter(os.getpid())
    begin_s = time.process_time()
    while time.process_time() < begin_s + 0.05:
        pass
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        meter.look()
        child.communicate(b"\n")
    costs = {cost.name: cost for cost in meter.costs({os.getpid(): "we", child.pid: "child"})}
    assert costs["we"].cpu_s >= 0.03
    assert costs["we"].resident_bytes > costs["child"].resident_bytes > 0


def test_a_port_in_use_is_said_before_a_server_starts() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        options = [f"--{name}={value}" for name, value in RUN.items() if name != "model"]
        outcome = CliRunner().invoke(
            app, ["serve", "vllm", "llama-3.1-8b", *options, "--port", port]
        )
    assert outcome.exit_code == 2
    assert f"port {port}: Address already in use" in outcome.output


def test_a_folder_with_something_in_it_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "precious").touch()
    with pytest.raises(RunError, match="is there already"):
        RunFolder.create(tmp_path)


def test_results_of_vllm_s_client(tmp_path: Path) -> None:
    path = tmp_path / "client.json"
    document = {
        "start_times": [5.0, 6.5],
        "input_lens": [10, 20],
        "output_lens": [3, 0],
        "ttfts": [0.02, 0.0],
        "itls": [[0.01, 0.01], []],
        "errors": ["", "refused"],
    }
    path.write_text(json.dumps(document))
    good, bad = read_vllm_results(path)
    assert good.start_s == 5
    assert good.latency_s == pytest.approx(0.04)
    assert good.tpot_s == pytest.approx(0.01)
    assert (bad.start_s, bad.ttft_s, bad.error) == (6.5, None, "refused")
    with pytest.raises(RunError, match="no result file"):
        read_vllm_results(tmp_path / "absent.json")


def test_spreads_are_over_those_that_have_the_metric() -> None:
    assert Spread.of([]) is None
    spread = Spread.of([0.001 * i for i in range(1, 102)])
    assert spread is not None
    assert spread.count == 101
    assert spread.p50_ms == pytest.approx(51)
    assert spread.p90_ms == pytest.approx(91)


def test_every_request_is_accounted_for_by_what_became_of_it() -> None:
    errors = [
        None,
        None,
        "HTTP 400 Bad Request: too long",
        "Bad Request",  # as `vllm bench serve` says it
        "HTTP 503 Service Unavailable: busy",
        "Traceback (most recent call last):\n  …\nConnectionResetError: gone",
        "not sent: request 2 before it failed",
    ]
    requests = [
        request(index, ttft_s=None if error else 0.02, error=error, output_tokens=3 - index)
        for index, error in enumerate(errors)
    ]
    planned = [Planned(Request(100, 3), 0.0)] * len(errors)
    state = SessionState.model_construct(host_ns=1, virtual_ns=1, advances=1, warnings={})
    steps = PredictedSteps.read(Path("no steps"))
    summary = summarise(planned, requests, steps, state, Serving(wall_s=1, steps=4, processes=[]))
    assert (summary.completed, summary.rejected, summary.failed) == (2, 2, 2)
    assert summary.sent == 6 == summary.completed + summary.rejected + summary.failed
    assert (summary.not_sent, summary.truncated) == (1, 1)
    assert summary.reasons["ConnectionResetError: gone"] == 1
    assert sum(summary.reasons.values()) == 5
    assert summary.counts == (
        "2 of 6 requests completed, 2 failed, 2 rejected, 1 not sent, 1 truncated"
    )


def test_a_client_that_does_not_tell_of_each_request_is_an_error() -> None:
    planned = [Planned(Request(100, 3), 0.0)] * 3
    state = SessionState.model_construct(host_ns=1, virtual_ns=1, advances=1, warnings={})
    steps = PredictedSteps.read(Path("no steps"))
    serving = Serving(wall_s=1, steps=4, processes=[])
    with pytest.raises(RunError, match="tells of 1 requests, and not of 3"):
        summarise(planned, [request(0)], steps, state, serving)


class _Exits:
    """Of a session whose members end in this order."""

    def __init__(self, *exits: Exited) -> None:
        self._exits = list(exits)

    def wait(self, _limit_s: float) -> Exited | None:
        return self._exits.pop(0)


def test_who_reads_the_metrics_must_not_end_before_the_client(tmp_path: Path) -> None:
    client, scraper = 7, 8
    exits = _Exits(Exited(scraper, 1), Exited(client, 0))
    ends = _Ends(cast(RunningEngine, exits), client, scraper, RunFolder(tmp_path))
    assert not ends.wait()
    assert ends.wait()
    assert ends.failure is not None
    assert "scraper.log" in ends.failure


@pytest.mark.parametrize(
    ("log", "exit_code", "message"),
    [
        (
            "usage: vllm serve\nvllm: error: unrecognized arguments: --no-such-flag\n",
            2,
            "before it was ready (exit code 2): error: unrecognized arguments: --no-such-flag",
        ),
        (
            "(EngineCore pid=7) ERROR [core.py:3] ValueError: no memory for the cache\n"
            "RuntimeError: Engine core initialization failed. See root cause above.\n",
            1,
            "before it was ready (exit code 1): ValueError: no memory for the cache",
        ),
        (
            "INFO:     Application startup complete.\nPredictorError: no tables\n",
            -9,
            "in mid-run (exit code -9): no tables",
        ),
        ("The server is fired up\nOSError: gone\n", -9, "in mid-run (exit code -9)"),
    ],
)
def test_an_engine_s_end_is_told_with_its_reason(
    tmp_path: Path, log: str, exit_code: int, message: str
) -> None:
    file = tmp_path / "engine.log"
    file.write_text(log)
    session = SimpleNamespace(
        wait_exited=lambda _: Exited(7, exit_code),
        state=lambda: SimpleNamespace(killed=[]),
    )
    engine = RunningEngine(cast(RunningSession, session), {}, 7, file)
    with pytest.raises(EngineEnded) as ended:
        engine.wait(None)
    assert str(ended.value) == f"the engine ended {message}: see {file}"


def test_tokens_are_counted_when_they_arrive() -> None:
    times_s, rates = output_tokens_per_s([request(0), request(1), request(2, ttft_s=None)])
    assert list(times_s) == [0, 1]
    assert list(rates) == [3, 3]


def test_a_chunk_may_be_of_several_tokens() -> None:
    drafted = request(0, output_tokens=6, itl_s=(0.5, 0.5))
    at_once = request(0, output_tokens=4, itl_s=())
    assert list(output_tokens_per_s([drafted]).values) == [1 + 2.5, 2.5]
    assert list(output_tokens_per_s([at_once]).values) == [4]


def log_steps(file: Path, *provenances: str) -> None:
    """Steps of 1, 2, … ms, the extrapolated ones with a reason; all but the first are looked up."""
    with file.open("w") as log:
        for index, provenance in enumerate(provenances):
            step: dict[str, Any] = {
                "start_ns": index,
                "duration_ns": (index + 1) * 1_000_000,
                "provenance": provenance,
                "lookups": [index, 1],
            }
            if provenance == "extrapolated":
                step["outside"] = f"batch {index}, known up to 0"
            log.write(json.dumps(step) + "\n")


def test_it_is_counted_what_steps_rest_on(tmp_path: Path) -> None:
    log_steps(tmp_path / "steps-1.jsonl", "measured", "extrapolated", "analytic", "extrapolated")
    log_steps(tmp_path / "steps-2.jsonl", "stated", "interpolated")
    (tmp_path / "steps-3.jsonl").write_text('{"start_ns": 1')
    counted = PredictedSteps.read(tmp_path)
    assert counted.total == 6
    assert (counted.measured, counted.extrapolated, counted.stated) == (1, 2, 1)
    assert counted.extrapolated_time_share == pytest.approx((2 + 4) / (1 + 2 + 3 + 4 + 1 + 2))
    assert (counted.lookup_hits, counted.lookup_misses) == (3 + 1, 2)
    assert counted.warning is not None
    assert counted.warning.startswith("2 of 6 steps, 46.2% of their time, are extrapolated")
    assert "the first: batch 1, known up to 0" in counted.warning
    assert "--strict" in counted.warning


def test_without_guesses_there_is_no_warning(tmp_path: Path) -> None:
    assert PredictedSteps.read(tmp_path).warning is None
    log_steps(tmp_path / "steps-1.jsonl", "measured", "stated")
    assert PredictedSteps.read(tmp_path).warning is None


def test_a_report_shows_what_there_is(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "run")
    samples = [
        {
            "time_ns": second * 10**9,
            "metrics": {
                'vllm:num_requests_running{engine="0"}': second,
                'vllm:prefix_cache_hits_total{engine="0"}': 16 * second,
                'vllm:external_prefix_cache_hits_total{engine="0"}': 0,
            },
        }
        for second in range(3)
    ]
    folder.metrics.write_text("".join(f"{json.dumps(sample)}\n" for sample in samples))
    curve = sampled(read_samples(folder.metrics), "vllm:num_requests_running", 1.5)
    assert curve is not None
    assert list(curve.times_s) == [-0.5, 0.5]
    assert list(curve.values) == [1, 2]
    requests = [request(0), request(1)]
    log_steps(folder.steps / "steps-1.jsonl", "interpolated", "extrapolated")
    predicted_steps = PredictedSteps.read(folder.steps)
    summary = summary_of_two().model_copy(update={"predicted_steps": predicted_steps})
    write_report(folder, RunConfig.model_validate(RUN), requests, summary)
    page = folder.report.read_text()
    captions = re.findall(r"<figcaption>(.*?)</figcaption>", page)
    assert captions == [
        *("TTFT", "TPOT", "ITL", "Output tokens", "Requests in the engine"),
        "Prompt tokens found in caches",
    ]
    assert page.count("<svg") == 6
    assert "elsewhere" not in page, "nothing was"
    assert "2 of 2 requests completed" in page
    assert "1 busy-wait(s) were charged virtual time" in page
    assert re.search(r"<td>server</td>.*0\.50</td>.*>3</td>", page, re.DOTALL)
    assert '<td>interpolated</td><td class="number">1</td>' in page
    assert "1 of 2 steps, 66.7% of their time, are extrapolated" in page
    assert "src=" not in page, "one file that needs no other"


def test_a_tier_is_one_label_of_a_metric() -> None:
    metrics = {
        f'sglang:cached_tokens_total{{cache_source="{tier}",rank="{rank}"}}': tokens
        for rank in (0, 1)
        for tier, tokens in (("device", 5), ("storage", 70))
    }
    samples = [{"time_ns": 0, "metrics": metrics}]
    stored = sampled(samples, "sglang:cached_tokens_total", 0, 'cache_source="storage"')
    assert stored is not None
    assert list(stored.values) == [140]
    assert sampled(samples, "sglang:cached_tokens_total", 0, 'cache_source="host"') is None


def test_a_report_is_made_once_more_from_its_folder(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "run")
    folder.config.write_text(yaml.safe_dump(RunConfig.of(**RUN).model_dump(mode="json")))
    unfinished = CliRunner().invoke(app, ["report", str(folder.path)])
    assert unfinished.exit_code == 2
    assert "it was not run to its end" in unfinished.output
    folder.requests.write_text(f"{request(0).model_dump_json()}\n")
    assert CliRunner().invoke(app, ["report", str(folder.path)]).exit_code == 2  # no summary
    folder.summary.write_text(summary_of_two().model_dump_json())
    made = CliRunner().invoke(app, ["report", str(folder.path)])
    assert made.exit_code == 0, made.output
    assert "2 of 2 requests completed" in folder.report.read_text()
    assert json.loads(folder.trace.read_text())["traceEvents"]


def test_a_trace_has_steps_and_requests_from_the_first_request_on(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "run")
    requests = [request(0), request(1)]
    start_ns = round(min(r.start_s for r in requests) * 1e9)
    step = {
        "start_ns": start_ns,
        "end_ns": start_ns + 20_000_000,
        "duration_ns": 20_000_000,
        "provenance": "stated",
        "padded_tokens": 8,
        "request_ids": ["a", "b"],
        "requests": [[5, 0, True], [1, 9, False]],
    }
    (folder.steps / "steps-1.jsonl").write_text(json.dumps(step) + "\n")
    write_trace(folder, requests)
    events = json.loads(folder.trace.read_text())["traceEvents"]
    (bar,) = [event for event in events if event["ph"] == "X"]
    assert (bar["name"], bar["ts"], bar["dur"]) == ("mixed", 0.0, 20_000.0)
    assert bar["args"]["new tokens"] == 6
    (counted,) = [event for event in events if event["ph"] == "C"]
    assert counted["args"] == {"prefill": 1, "decode": 1}
    begins = [event for event in events if event["ph"] == "b"]
    assert len(begins) == len([event for event in events if event["ph"] == "e"]) == 4
    assert begins[0]["name"] == "request 0"


def stock_command(run: Path | None = None, **said: Any) -> list[str]:
    """``run``: the folder, if it is looked at."""
    config = RunConfig.read(None, **(RUN | {"num_requests": 20} | said))
    planned = planned_of(config)
    assert clients.sends_as_stock(config, planned)
    launch: Any = SimpleNamespace(
        python=Path("bin/python"),
        port=1,
        url="http://127.0.0.1:1",
        model=model_named("llama-3.1-8b"),
    )
    with tempfile.TemporaryDirectory() as path:
        folder = RunFolder.create(run or Path(path) / "run")
        return clients.prepare_client(config, planned, launch, folder, as_stock=True)


@pytest.mark.parametrize(
    ("said", "options"),
    [
        ({}, "--request-rate 4.0"),
        ({"rate": 2}, "--request-rate 2.0"),
        ({"rate": "inf"}, "--request-rate inf"),
        ({"arrival": "gamma:0.5", "rate": 2}, "--request-rate 2.0 --burstiness 0.5"),
        ({"arrival": "constant"}, "--request-rate 4.0 --burstiness inf"),
        ({"arrival": "burst"}, "--request-rate inf"),
        ({"arrival": "closed:3"}, "--request-rate inf … --max-concurrency 3"),
        ({"max_concurrency": 5}, "--request-rate 4.0 … --max-concurrency 5"),
        (
            {"arrival": "ramp:2-8:exponential"},
            "--ramp-up-strategy exponential --ramp-up-start-rps 2 --ramp-up-end-rps 8",
        ),
        ({"workload": "mooncake", "num_requests": 2}, "--request-rate 4.0"),
    ],
)
def test_the_stock_client_is_told_the_arrivals(said: dict[str, Any], options: str) -> None:
    command = stock_command(**said)
    assert command[:3] == ["bin/vllm", "bench", "serve"]
    said_options = " ".join(command)
    for part in options.split(" … "):
        assert f" {part} " in f"{said_options} "
    assert ("--burstiness" in said_options) == ("--burstiness" in options)


def test_every_client_is_told_how_tokens_are_chosen(tmp_path: Path) -> None:
    said: dict[str, Any] = {"temperature": 0.6, "top_p": 0.9, "top_k": 20}
    assert "--temperature 0.6 --top-p 0.9 --top-k 20" in " ".join(stock_command(**said))
    ours = stock_command(**said, fast=True)
    assert json.loads(ours[ours.index("--sampling") + 1]) == said
    folder = tmp_path / "run"
    stock_command(folder, **said, engine="sglang==0.5.23", arrival="burst")
    rows = [json.loads(line) for line in RunFolder(folder).dataset.open()]
    assert all(row | said == row for row in rows)


def test_who_asks_for_no_sampling_asks_as_the_engine_s_own_client() -> None:
    """SGLang's for temperature 0, vLLM's for nothing."""
    assert "--temperature" not in stock_command()
    assert "--sampling" not in stock_command(fast=True)
    sglang = RunConfig.read(None, **RUN, engine="sglang==0.5.23", fast=True)
    assert sglang.sampling == {"temperature": 0.0}


@pytest.mark.parametrize(
    "wrong", [{"temperature": -1}, {"temperature": "nan"}, {"top_p": 0}, {"top_p": 2}, {"top_k": 0}]
)
def test_no_sampling_like_that(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        RunConfig.read(None, **RUN, **wrong)


@pytest.mark.parametrize(
    ("said", "missing"),
    [
        ({"arrival": "trace"}, "no trace arrivals"),
        ({"arrival": "uniform"}, "no uniform arrivals"),
        ({"arrival": "normal:0.1"}, "no normal arrivals"),
        ({"arrival": "ramp:8-2"}, "no such ramp"),
        ({"arrival": "ramp:1.5-2"}, "no such ramp"),
        ({"arrival": "ramp:1-2:10s"}, "no such ramp"),
        ({"workload": "sessions"}, "no sessions"),
    ],
)
def test_what_the_stock_client_can_t_send_ours_does(said: dict[str, Any], missing: str) -> None:
    config = RunConfig.read(None, **(RUN | {"num_requests": 20} | said))
    planned = planned_of(config)
    assert not clients.sends_as_stock(config, planned)
    with pytest.raises(ConfigError, match=f"vllm bench serve has {missing}.*: say own"):
        clients.sends_as_stock(config.model_copy(update={"client": "stock"}), planned)


def test_ours_sends_anything_that_it_is_asked_to() -> None:
    config = RunConfig.read(None, **RUN, client="own")
    assert not clients.sends_as_stock(config, planned_of(config))


def test_an_engine_that_a_predictor_ended_says_why(tmp_path: Path) -> None:
    log = tmp_path / "engine.log"
    said = "warpserve.predictors.predictor.PredictorError: strict: a step is extrapolated: too long"
    log.write_text(f"INFO ready\n(EngineCore pid=7) ERROR [core.py:1233] {said}\nEngine died\n")
    session: Any = SimpleNamespace(
        wait_exited=lambda _limit_s: Exited(7, 1), state=lambda: SimpleNamespace(killed=())
    )
    engine = RunningEngine(session, {}, 7, log)
    with pytest.raises(RunError, match=r"exit code 1\): strict: a step is extrapolated: too long"):
        engine.wait(1.0)

"""Reading what benchmark tools and servers leave behind: tests/data/real_runs, written by them."""

from __future__ import annotations

import gzip
import json
import math
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from warpserve.bench.real.files import ImportFailed, read_written, write_run
from warpserve.bench.real.formats import server_log
from warpserve.bench.real.metrics import makespan_s, throughputs, values_of
from warpserve.bench.real.names import gpu_kind, model_name
from warpserve.bench.real.notation import UNREAD, arguments_of
from warpserve.bench.real.read import merged, read_run, read_runs, with_said
from warpserve.bench.real.schema import Request, Run, Source, Step, StepRequest
from warpserve.cli import app

DATA = Path(__file__).parent / "data"
REAL = DATA / "real_runs"
SIM = DATA / "llmservingsim" / "bench"


def run_of(*requests: Request, **more: Any) -> Run:
    return Run(sources=(Source(name="a", sha256="0", format="test"),), requests=requests, **more)


def unpacked(path: Path, folder: Path) -> Path:
    """A copy without compression, under the name that the tool gives it."""
    copy = folder / path.name.removesuffix(".gz")
    copy.write_bytes(gzip.decompress(path.read_bytes()))
    return copy


@pytest.fixture
def aiperf(tmp_path: Path) -> Path:
    for file in (REAL / "aiperf").iterdir():
        unpacked(file, tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", ["vllm.json.gz", "vllm-concurrency.json.gz", "sglang.jsonl.gz"])
def test_figures_are_those_that_the_tool_prints(name: str) -> None:
    run = read_run(REAL / name)
    assert len(run.completed) == 24
    assert run.warnings == {}
    for metric in ("ttft", "tpot", "itl", "latency"):
        mean_s = run.reported_s[metric]["mean"]
        assert values_of(run, metric).mean() == pytest.approx(mean_s, rel=1e-6), metric


def test_vllm_bench_serve() -> None:
    run = read_run(REAL / "vllm.json.gz")
    assert (run.deployment.engine, run.deployment.model) == (
        "vllm",
        "meta-llama/Llama-3.1-8B-Instruct",
    )
    workload = run.workload
    assert (workload.rate, workload.arrivals, workload.num_requests) == (8.0, "poisson", 24)
    assert run.requests[0].arrival_s == 0.0
    span_s = makespan_s(run)
    assert span_s is not None
    assert throughputs(run)["output_tokens"] == pytest.approx(862 / span_s, rel=1e-9)
    assert run.sources[0].format == "vllm-bench"


def test_a_concurrency_is_no_rate() -> None:
    workload = read_run(REAL / "vllm-concurrency.json.gz").workload
    assert workload.rate is not None
    assert math.isinf(workload.rate)
    assert (workload.arrivals, workload.max_concurrency) == ("concurrency", 4)


def test_without_details_there_are_only_the_tools_own_figures() -> None:
    run = read_run(REAL / "vllm-summary.json")
    assert run.requests == ()
    assert run.reported_s["tpot"]["p99"] == pytest.approx(6.020239e-3)
    assert (run.workload.arrivals, run.workload.burstiness) == ("gamma", 2.0)
    assert any("--save-detailed" in warning for warning in run.warnings)


def test_guidellm() -> None:
    run = read_run(REAL / "guidellm.json.gz")
    assert run.sources[0].tool_version == "0.8.1"
    assert len(run.completed) == 24
    assert run.workload.rate == 8.0
    assert run.warnings == {}
    assert run.requests[0].itl_s is None
    concurrency = read_run(REAL / "guidellm-concurrency.json.gz").workload
    assert (concurrency.arrivals, concurrency.max_concurrency) == ("concurrency", 4)


@pytest.mark.parametrize(
    ("limit", "workload"), [(4, ("concurrency", 4)), (10_240, ("at once", None))]
)
def test_guidellm_s_throughput_may_have_a_limit(
    tmp_path: Path, limit: int, workload: tuple[str, int | None]
) -> None:
    document = json.loads(gzip.decompress((REAL / "guidellm.json.gz").read_bytes()))
    strategy = {"type_": "throughput", "max_concurrency": limit}
    document["benchmarks"][0]["config"]["strategy"] = strategy
    file = tmp_path / "guidellm.json"
    file.write_text(json.dumps(document))
    found = read_run(file).workload
    assert (found.arrivals, found.max_concurrency, found.rate) == (*workload, None)


def test_guidellm_of_another_version_is_refused(tmp_path: Path) -> None:
    document = json.loads(gzip.decompress((REAL / "guidellm.json.gz").read_bytes()))
    document["metadata"]["version"] = 3
    file = tmp_path / "guidellm.json"
    file.write_text(json.dumps(document))
    with pytest.raises(ImportFailed, match="version is 3; known is 2"):
        read_run(file)


def test_aiperf(aiperf: Path) -> None:
    run = read_run(aiperf)
    assert run.sources[0].tool_version == "0.13.0"
    assert len(run.completed) == 24
    assert run.workload.rate == 8.0
    assert run.warnings == {}
    assert len(values_of(run, "itl")) == sum((r.output_tokens or 0) - 1 for r in run.requests)


def test_a_unit_that_is_not_known_is_an_error(aiperf: Path) -> None:
    file = aiperf / "profile_export.jsonl"
    file.write_text(file.read_text().replace('"unit":"ms"', '"unit":"fortnights"'))
    with pytest.raises(ImportFailed, match="'fortnights'; known are ns, us, ms, sec"):
        read_run(aiperf)


def test_inference_perf(tmp_path: Path) -> None:
    for file in (REAL / "inference-perf").iterdir():
        unpacked(file, tmp_path)
    run = read_run(tmp_path)
    assert [len(run.completed), len(run.requests)] == [11, 12]
    assert next(r for r in run.requests if r.status == "failed").error == (
        "ClientConnectorError: refused"
    )
    assert values_of(run, "ttft").tolist() == pytest.approx([0.020] * 11)
    assert run.requests[0].input_tokens == 101  # as the server counted
    summary = read_run(tmp_path / "summary_lifecycle_metrics.json")
    assert summary.workload.rate == 8.0
    assert summary.reported_s["tpot"]["p95"] == pytest.approx(0.010)
    document = json.loads((tmp_path / "summary_lifecycle_metrics.json").read_text())
    document["successes"]["latency"] = None
    (tmp_path / "summary_lifecycle_metrics.json").write_text(json.dumps(document))
    with pytest.raises(ImportFailed, match=r"successes\.latency"):
        read_run(tmp_path / "summary_lifecycle_metrics.json")


def test_llmservingsim() -> None:
    run = read_run(SIM / "RTX4090")
    deployment = run.deployment
    assert (deployment.engine_version, deployment.gpu) == ("0.19.0", "NVIDIA GeForce RTX 4090")
    assert (deployment.kv_blocks, deployment.kv_tokens) == (2588, 41_408)
    assert deployment.cuda_graph_sizes is not None
    assert max(deployment.cuda_graph_sizes) == 512
    assert run.workload.times_from == "queueing"
    # As LLMServingSim's own summary of this run has them.
    assert round(values_of(run, "ttft").mean() * 1e3, 1) == 65_456.6
    assert round(values_of(run, "tpot").mean() * 1e3, 1) == 32.4
    assert min(r.queued_s - r.arrival_s for r in run.requests) == pytest.approx(0, abs=1e-6)  # type: ignore[operator]
    assert run.series[0].kv_usage == pytest.approx(0.1322)


def test_a_row_that_breaks_off_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(SIM / "RTX4090", folder)
    samples = next(folder.glob("timeseries.csv*"))
    text = unpacked(samples, tmp_path) if samples.suffix == ".gz" else samples
    whole = text.read_text().rstrip()
    samples.unlink()
    (folder / "timeseries.csv").write_text(whole.rpartition(",")[0])
    with pytest.raises(ImportFailed, match=r"timeseries\.csv, line \d+: no row of 6 numbers"):
        read_run(folder)


def test_what_a_file_does_not_say_stays_unknown() -> None:
    run = read_run(SIM / "RTXPRO6000")
    deployment = run.deployment
    unknown = (deployment.gpu, deployment.kv_blocks, deployment.kv_tokens, deployment.max_model_len)
    assert unknown == (None,) * 4
    assert run.workload.cache is None
    assert all(sample.kv_usage is None for sample in run.series)  # this recorder wrote only zeros


def test_llmservingsim_with_a_request_missing(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(SIM / "RTXPRO6000", folder)
    lines = unpacked(folder / "requests.jsonl.gz", folder).read_text().splitlines(keepends=True)
    (folder / "requests.jsonl.gz").unlink()
    (folder / "requests.jsonl").write_text("".join(lines[:-1]))
    with pytest.raises(ImportFailed, match="says 300 requests, not 299"):
        read_run(folder)


def test_a_vllm_log() -> None:
    run = read_run(REAL / "vllm-server.log.gz")
    deployment = run.deployment
    assert (deployment.engine_version, deployment.kv_tokens) == ("0.24.0", 464_352)
    assert (deployment.tensor_parallel, deployment.max_num_batched_tokens) == (1, 8_192)
    assert deployment.prefix_caching
    assert deployment.quantization == "none"
    assert deployment.cuda_graph_sizes is not None
    assert len(deployment.cuda_graph_sizes) == 51
    assert deployment.max_num_seqs is None  # a default, which the log does not say
    assert deployment.arguments["model_tag"] == "meta-llama/Llama-3.1-8B-Instruct"


SGLANG_LOG = """\
[2026-05-01 10:00:00] server_args=ServerArgs(model_path='Qwen/Qwen3-8B', tp_size=2, pp_size=1, \
dp_size=1, page_size=1, disable_radix_cache=False, chunked_prefill_size=8192, \
mem_fraction_static=0.88, disable_cuda_graph=False, odd=<object at 0x1>)
[2026-05-01 10:00:30 TP0] Capture cuda graph bs [1, 2, 4, 8]
[2026-05-01 10:00:40 TP0] max_total_num_tokens=431234, chunked_prefill_size=8192, \
max_prefill_tokens=16384, max_running_requests=2048, context_len=40960, available_gpu_mem=7.5 GB
"""


def test_an_sglang_log(tmp_path: Path) -> None:
    file = tmp_path / "server.log"
    file.write_text(SGLANG_LOG.replace(", odd=<object at 0x1>", ""))
    deployment = read_run(file).deployment
    assert (deployment.engine, deployment.tensor_parallel) == ("sglang", 2)
    assert (deployment.kv_tokens, deployment.max_num_seqs) == (431_234, 2_048)
    assert deployment.cuda_graph_sizes == (1, 2, 4, 8)
    assert deployment.prefix_caching


@pytest.mark.parametrize(
    ("version", "config", "captured", "sizes"),
    [
        ("0.5.14", "PhaseConfig(backend='full', max_bs=8, bs=[1, 2, 4, 8])", "begin", (1, 2, 4)),
        ("0.5.23", "{'backend': 'full', 'max_bs': 8, 'bs': [1, 2, 4, 8]}", "end", (1, 2, 4)),
        ("0.5.23", "{'backend': 'full', 'max_bs': 8, 'bs': [1, 2, 4, 8]}", None, (1, 2, 4, 8)),
        ("0.5.23", "{'backend': 'disabled', 'max_bs': 8, 'bs': [1, 2, 4, 8]}", None, ()),
    ],
)
def test_an_sglang_log_tells_of_graphs_by_phase(
    tmp_path: Path, version: str, config: str, captured: str | None, sizes: tuple[int, ...]
) -> None:
    prefill = "'prefill': {'backend': 'breakable', 'bs': [16, 32]}"
    said = f"{{'page_size': 1, 'cuda_graph_config': {{'decode': {config}, {prefill}}}}}"
    if version == "0.5.14":
        said = (
            f"ServerArgs(page_size=1, cuda_graph_config=CudaGraphConfig(decode={config}, "
            "prefill=PhaseConfig(backend='breakable', bs=[16, 32])))"
        )
    lines = [
        f"server_args={said}",
        "Capture target prefill CUDA graph begin. backend=breakable, num_tokens=[16, 32]",
        f"Capture target decode CUDA graph {captured}. num_tokens_per_bs=1, bs=[1, 2, 4], x=1"
        if captured
        else "",
    ]
    (tmp_path / "server.log").write_text("\n".join(lines))
    run = read_run(tmp_path / "server.log")
    assert run.deployment.cuda_graph_sizes == sizes
    assert run.warnings == {}


def test_an_sglang_that_cuts_no_prompts_has_no_budget(tmp_path: Path) -> None:
    (tmp_path / "server.log").write_text("server_args={'page_size': 1, 'chunked_prefill_size': -1}")
    deployment = read_run(tmp_path / "server.log").deployment
    assert deployment.max_num_batched_tokens is None
    assert deployment.arguments["chunked_prefill_size"] == -1


def test_objects_and_members_among_arguments_are_read_as_options_take_them() -> None:
    said, warnings = arguments_of(
        "{'compilation_config': {'mode': <CompilationMode.VLLM_COMPILE: 3>, 'cudagraph_mode': "
        "<CUDAGraphMode.FULL_DECODE_ONLY: (2, 0)>, 'shapes': <ShapesType.BACKED: 'backed'>}, "
        "'kv_transfer_config': KVTransferConfig(kv_connector='X', kv_rank=None), "
        "'of_old': {\"level\": 3, \"debug\": null}, 'odd': PosixPath('/a'), 'seed': 0}"
    )
    assert said == {
        "compilation_config": {
            "mode": "VLLM_COMPILE",
            "cudagraph_mode": "FULL_DECODE_ONLY",
            "shapes": "backed",
        },
        "kv_transfer_config": {"kv_connector": "X", "kv_rank": None},
        "of_old": {"level": 3, "debug": None},
        "seed": 0,
    }
    assert list(warnings) == [f"{UNREAD}'odd' is no plain value"]


def test_arguments_in_no_notation_are_said_to_be_unread(tmp_path: Path) -> None:
    file = tmp_path / "server.log"
    file.write_text(SGLANG_LOG)
    run = read_run(file)
    assert run.deployment.kv_tokens == 431_234
    assert run.deployment.model is None
    assert list(run.warnings) == [f"{UNREAD}they are in no notation of Python's"]


def test_arguments_without_names_are_said_to_be_unread(tmp_path: Path) -> None:
    file = unpacked(REAL / "vllm-server.log.gz", tmp_path)
    text = re.sub(r"(?<=non-default args: ){.*}", "{'a', 'b'}", file.read_text())
    file.write_text(text)
    assert f"{UNREAD}they are no names and values" in read_run(file).warnings


def test_statistics_of_several_engines_are_added_up(tmp_path: Path) -> None:
    line = (
        "INFO 11-28 10:00:{at} [loggers.py:273] Engine 00{engine}: Avg prompt throughput: 10.0 "
        "tokens/s, Avg generation throughput: 5.0 tokens/s, Running: 3 reqs, Waiting: 1 reqs, GPU "
        "KV cache usage: {usage}%, Prefix cache hit rate: 0.0%\n"
    )
    file = tmp_path / "server.log"
    file.write_text(
        "Initializing a V1 LLM engine (v0.24.0) with config: x\n"
        + "".join(
            line.format(at=at, engine=engine, usage=10.0 + 10 * engine)
            for at in (10, 20)
            for engine in (0, 1)
        )
    )
    samples = server_log.read(file)[0].series
    assert [sample.time_s for sample in samples] == [0.0, 10.0]
    assert (samples[1].running, samples[1].waiting) == (6, 2)
    assert samples[1].kv_usage == pytest.approx(0.15)


def test_a_log_tells_of_cards_that_do_not_reach_each_other(tmp_path: Path) -> None:
    file = unpacked(REAL / "vllm-server.log.gz", tmp_path)
    assert read_run(file).deployment.peers is None
    with file.open("a") as log:
        log.write(
            "WARNING 11-28 10:00:00 [custom_all_reduce.py:165] Custom allreduce is disabled "
            "because your platform lacks GPU P2P capability or P2P test failed. To silence …\n"
        )
    assert read_run(file).deployment.peers is False


def test_a_log_tells_what_the_client_does_not() -> None:
    run = merged(read_run(REAL / "vllm.json.gz"), [read_run(REAL / "vllm-server.log.gz")])
    assert run.deployment.kv_tokens == 464_352
    assert len(run.requests) == 24
    assert [source.format for source in run.sources] == ["vllm-bench", "server-log"]


def test_steps_are_kept_whichever_file_has_them() -> None:
    client = read_run(REAL / "vllm.json.gz")
    computed = StepRequest(new_tokens=1, cached_tokens=9, is_prefill=False)
    recorded = run_of(steps=(Step(start_s=0, end_s=1, requests=(computed,)),))
    assert merged(client, [recorded]).steps == merged(recorded, [client]).steps == recorded.steps
    with pytest.raises(ImportFailed, match="two of the files have steps"):
        merged(recorded, [recorded])


def test_files_that_disagree_are_refused() -> None:
    run = with_said(read_run(REAL / "vllm.json.gz"), ["deployment.engine_version=0.19.0"])
    with pytest.raises(ImportFailed, match=r"engine_version is '0\.19\.0' here, '0\.24\.0' there"):
        merged(run, [read_run(REAL / "vllm-server.log.gz")])
    with pytest.raises(ImportFailed, match="two of the files have requests"):
        merged(run, [run])


def test_what_the_user_knows() -> None:
    run = with_said(
        read_run(SIM / "RTXPRO6000"), ["deployment.gpu=rtx-pro-6000", "workload.cache=cold"]
    )
    assert (run.deployment.gpu, run.workload.cache) == ("rtx-pro-6000", "cold")
    assert run.sources[-1].format == "said by the user"
    for wrong in ("gpu=h100", "deployment.gpus=many", "workload.cache=tepid"):
        with pytest.raises(ImportFailed, match="--set"):
            with_said(run, [wrong])


def test_unknown_fields_are_counted_and_wrong_ones_refused(tmp_path: Path) -> None:
    document = json.loads(gzip.decompress((REAL / "vllm.json.gz").read_bytes()))
    file = tmp_path / "result.json"
    file.write_text(json.dumps(document | {"colour": "red"}))
    assert read_run(file).warnings == {"unknown field 'colour'": 1}
    file.write_text(json.dumps(document | {"ttfts": ["soon"] * 24}))
    with pytest.raises(ImportFailed, match=r"ttfts\.0: .*not 'soon'"):
        read_run(file)
    file.write_text(json.dumps(document | {"ttfts": document["ttfts"][1:]}))
    with pytest.raises(ImportFailed, match="not equally long"):
        read_run(file)


def test_a_figure_of_another_definition_does_not_pass_for_ours(tmp_path: Path) -> None:
    document = json.loads(gzip.decompress((REAL / "vllm.json.gz").read_bytes()))
    file = tmp_path / "result.json"
    file.write_text(json.dumps(document | {"mean_ttft_ms": 99.0}))
    (warning,) = read_run(file).warnings
    assert "the tool says 99.000 ms, its requests give 14.850 ms" in warning


def test_zeros_are_no_measurements(tmp_path: Path) -> None:
    document = json.loads(gzip.decompress((REAL / "vllm.json.gz").read_bytes()))
    for name, nothing in (("ttfts", 0.0), ("output_lens", 0), ("itls", [])):
        document[name][3] = nothing
    file = tmp_path / "result.json"
    file.write_text(json.dumps(document))
    request = read_run(file).requests[3]
    assert (request.status, request.ttft_s, request.latency_s) == ("failed", None, None)


def test_values_that_no_run_can_have_are_refused(tmp_path: Path) -> None:
    document = json.loads(gzip.decompress((REAL / "vllm.json.gz").read_bytes()))
    file = tmp_path / "result.json"
    for wrong in (-1.0, math.nan, math.inf):
        file.write_text(json.dumps(document | {"ttfts": [wrong] * 24}))
        with pytest.raises(ImportFailed, match="ttft_s"):
            read_run(file)
    file = tmp_path / "broken.json.gz"
    file.write_bytes((REAL / "vllm.json.gz").read_bytes()[:500] + b"x" * 99)
    with pytest.raises(ImportFailed, match="cannot read"):
        read_run(file)


def test_sglang_says_what_its_server_runs_as(tmp_path: Path) -> None:
    document = json.loads(gzip.decompress((REAL / "sglang.jsonl.gz").read_bytes()))
    info = {
        "version": "0.5.23",
        "model_path": "Qwen/Qwen3-8B",
        "tp_size": 2,
        "page_size": 64,
        "max_total_num_tokens": 6_400,
        "disable_radix_cache": True,
        "schedule_policy": "fcfs",
        "cuda_graph_config": {"decode": {"backend": "full", "bs": [1, 2]}},
    }
    file = tmp_path / "result.jsonl"
    file.write_text(json.dumps(document | {"backend": "sglang", "server_info": info}))
    deployment = read_run(file).deployment
    assert (deployment.engine, deployment.engine_version) == ("sglang", "0.5.23")
    assert (deployment.kv_blocks, deployment.kv_tokens) == (100, 6_400)
    assert deployment.prefix_caching is False
    assert deployment.cuda_graph_sizes == (1, 2)
    assert deployment.arguments["schedule_policy"] == "fcfs"


def test_times_of_zero_are_no_measurements(tmp_path: Path) -> None:
    """An answer without tokens (sglang 12389, 6525) is a success to sglang.bench_serving."""
    document = json.loads(gzip.decompress((REAL / "sglang.jsonl.gz").read_bytes()))
    document["ttfts"][0], document["itls"][0] = 0.0, []
    file = tmp_path / "result.jsonl"
    file.write_text(json.dumps(document))
    request = read_run(file).requests[0]
    assert (request.status, request.ttft_s) == ("failed", None)


def test_several_runs_in_a_file(tmp_path: Path) -> None:
    line = gzip.decompress((REAL / "sglang.jsonl.gz").read_bytes())
    file = tmp_path / "result.jsonl"
    file.write_bytes(line + line)
    assert len(read_runs(file)) == 2
    with pytest.raises(ImportFailed, match=r"say which by `warpserve import .* --select N"):
        read_run(file)
    assert read_run(file, select=2).completed
    with pytest.raises(ImportFailed, match="not one numbered 3"):
        read_run(file, select=3)


def test_a_file_of_no_format_is_refused_with_the_formats(tmp_path: Path) -> None:
    file = tmp_path / "notes.json"
    for document in ("{}", '{"metadata": null}'):
        file.write_text(document)
        with pytest.raises(ImportFailed, match="vllm-bench: a JSON file of `vllm bench serve"):
            read_run(file)
    with pytest.raises(ImportFailed, match="no format 'csv'"):
        read_run(file, "csv")


def test_what_is_written_is_read_again_and_always_the_same_bytes(tmp_path: Path) -> None:
    run = read_run(SIM / "RTX4090")
    for name in ("run.json", "run.json.gz"):
        write_run(tmp_path / name, run)
        assert read_run(tmp_path / name) == run
    before = (tmp_path / "run.json.gz").read_bytes()
    write_run(tmp_path / "run.json.gz", run)
    assert (tmp_path / "run.json.gz").read_bytes() == before


def test_an_infinite_rate_is_written_and_read(tmp_path: Path) -> None:
    run = read_run(REAL / "vllm-concurrency.json.gz")
    write_run(tmp_path / "run.json", run)
    assert read_written(tmp_path / "run.json") == run


def test_an_unknown_field_of_ours_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "run.json"
    file.write_text('{"schema_version":1,"sources":[],"requets":[]}')
    with pytest.raises(ImportFailed, match="requets"):
        read_run(file)


def test_tpot_needs_two_tokens() -> None:
    one = Request(status="completed", output_tokens=1, ttft_s=0.1, latency_s=0.1)
    three = one.model_copy(update={"output_tokens": 3, "latency_s": 0.3})
    assert values_of(run_of(one, three), "tpot").tolist() == [pytest.approx(0.1)]


def test_names_of_models_and_gpus() -> None:
    assert gpu_kind("NVIDIA GeForce RTX 4090") == gpu_kind("rtx-4090") == "rtx-4090"
    assert gpu_kind("Some Other Card") == "some other card"
    assert model_name("meta-llama/Llama-3.1-8B") == model_name("llama-3.1-8b")
    assert model_name("/models/Mine-7B/") == "mine-7b"


def test_the_command(tmp_path: Path) -> None:
    out = tmp_path / "real.json.gz"
    command = ["import", str(REAL / "vllm.json.gz"), str(REAL / "vllm-server.log.gz")]
    result = CliRunner().invoke(
        app, [*command, "--set", "deployment.gpu=h100-sxm", "--out", str(out)]
    )
    assert result.exit_code == 0, result.output
    assert "24 requests completed, 0 failed" in result.output
    assert read_run(out).deployment.gpu == "h100-sxm"
    refused = CliRunner().invoke(app, ["import", str(tmp_path / "nothing.json")])
    assert refused.exit_code == 2
    assert "does not exist" in refused.output

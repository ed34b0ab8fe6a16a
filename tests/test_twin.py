"""The experiment that a real run's metadata describe, before anything is started."""

from __future__ import annotations

import gzip
import json
import math
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from warpserve.bench.config import RunConfig
from warpserve.bench.experiment import planned_of
from warpserve.bench.real.read import merged, read_run, with_said
from warpserve.bench.real.schema import Deployment, Request, Run, Sample, Source, Workload
from warpserve.bench.twin import Twin, TwinError, twin_of, write_arrivals
from warpserve.cli import app

DATA = Path(__file__).parent / "data"
RTX_4090 = DATA / "llmservingsim" / "bench" / "RTX4090"
RTX_PRO_6000 = DATA / "llmservingsim" / "bench" / "RTXPRO6000"
VLLM = DATA / "real_runs" / "vllm.json.gz"
VLLM_LOG = DATA / "real_runs" / "vllm-server.log.gz"


def twin(real: Run, **said: Any) -> Twin:
    return twin_of(real, Path("arrivals.csv"), **{"predictor": "analytic"} | said)


def small(*requests: Request, workload: Workload | None = None, **deployment: Any) -> Run:
    described = {"engine": "vllm", "engine_version": "0.24.0", "model": "llama-3.1-8b"}
    return Run(
        sources=(Source(name="a", sha256="0", format="test"),),
        deployment=Deployment(**described | {"gpu": "h100-sxm"} | deployment),
        workload=workload or Workload(),
        requests=requests or (request(),),
    )


def request(**more: Any) -> Request:
    values: dict[str, Any] = {"status": "completed", "input_tokens": 10, "output_tokens": 5}
    return Request(**values | {"arrival_s": 0.0} | more)


def test_all_that_the_real_engine_was_told() -> None:
    config = twin(read_run(RTX_4090)).config
    assert (config.engine, config.gpu) == ("vllm==0.19.0", "rtx-4090:1")
    assert (config.kv_tokens, config.arrival, config.num_requests) == (41_408, "trace", 300)
    expected = {
        "--max-num-seqs": "256",
        "--max-num-batched-tokens": "2048",
        "--max-model-len": "32768",
        "--block-size": "16",
        "--dtype": "bfloat16",
    }
    assert {name: config.flag(name) for name in expected} == expected
    sizes = config.engine_flags[config.engine_flags.index("--cudagraph-capture-sizes") + 1 :]
    assert (sizes[0], sizes[-1], len(sizes)) == ("1", "512", 51)


def test_tokens_are_chosen_as_they_were() -> None:
    """LLMServingSim's recorder asks for temperature 0; of others nothing is known."""
    assert twin(read_run(RTX_4090)).config.temperature == 0.0
    assert twin(small()).config.temperature is None
    assert twin(small(), temperature=0.7).config.temperature == 0.7


def test_replicas_have_one_frontend_where_the_recorder_was_it(tmp_path: Path) -> None:
    shutil.copytree(RTX_4090, tmp_path / "run")
    meta = tmp_path / "run" / "meta.json"
    document = json.loads(meta.read_text())
    document["engine_kwargs"] |= {"data_parallel_size": 2, "enable_expert_parallel": True}
    meta.write_text(json.dumps(document))
    two, alone = twin(read_run(tmp_path / "run")).config, twin(read_run(RTX_4090)).config
    assert (two.flag("--data-parallel-size"), two.flag("--api-server-count")) == ("2", "1")
    assert two.gpu == "rtx-4090:2"
    assert alone.flag("--api-server-count") is None


@pytest.mark.parametrize(
    ("gpu", "peers", "made", "guess"),
    [
        ("rtx-pro-6000", None, "rtx-pro-6000:2", "@pcie-8 if those of the real run reach"),
        ("rtx-pro-6000", False, "rtx-pro-6000:2", None),
        ("rtx-pro-6000", True, "rtx-pro-6000:2@pcie-8", None),
        ("l40s", None, "l40s:2", "@pcie-8-host if those of the real run do not reach"),
        ("l40s", False, "l40s:2@pcie-8-host", None),
        ("h100-sxm", None, "h100-sxm:2", None),
        ("rtx-4090", None, "rtx-4090:2", None),
    ],
)
def test_cards_reach_each_other_as_far_as_it_is_known(
    gpu: str, peers: bool | None, made: str, guess: str | None
) -> None:
    run = small(gpu=gpu, peers=peers, tensor_parallel=2)
    found = twin(run)
    assert found.config.gpu == made
    guesses = [note for note in found.notes if "it is taken that" in note]
    assert len(guesses) == (guess is not None)
    assert guess is None or guess in guesses[0]


def test_requests_are_sent_when_they_were_sent(tmp_path: Path) -> None:
    real = read_run(RTX_PRO_6000)
    arrivals = tmp_path / "arrivals.csv"
    made = twin_of(real, arrivals, predictor="analytic", gpu="rtx-pro-6000")
    write_arrivals(arrivals, made.requests)
    planned = planned_of(made.config)
    assert len(planned) == 300
    for entry, sent in zip(planned, real.requests, strict=True):
        assert entry.arrival_s == pytest.approx(sent.arrival_s, abs=1e-9)
        lengths = (entry.request.input_tokens, entry.request.output_tokens)
        assert lengths == (sent.input_tokens, sent.output_tokens)


def test_what_is_not_known_is_asked_for() -> None:
    real = read_run(RTX_PRO_6000)
    with pytest.raises(TwinError, match="does not say its gpu: say --gpu"):
        twin(real)
    assert twin(real, gpu="rtx-pro-6000").config.kv_tokens is None  # left to the engine
    client = read_run(VLLM)
    with pytest.raises(TwinError, match="say --engine"):
        twin(client, gpu="h100-sxm")
    with pytest.raises(TwinError, match="does not say its model: say --model"):
        twin(small(model=None))


def test_a_log_makes_the_clients_file_complete() -> None:
    real = merged(read_run(VLLM), [read_run(VLLM_LOG)])
    config = twin(with_said(real, ["deployment.gpu=h100-sxm"])).config
    assert (config.engine, config.kv_tokens) == ("vllm==0.24.0", 464_352)
    assert config.flag("--port") is None  # the real server's own
    assert config.flag("--max-model-len") == "131072"


def test_another_engine_is_said_to_be_another() -> None:
    made = twin(read_run(RTX_4090), engine="vllm==0.24.0")
    assert made.config.engine == "vllm==0.24.0"
    assert "The engine is vllm==0.24.0, the real one was 0.19.0." in made.notes


def test_flags_of_the_users_go_last() -> None:
    made = twin_of(small(max_num_seqs=8), Path("a"), predictor="analytic", flags=["--seed", "3"])
    assert made.config.engine_flags == ("--max-num-seqs", "8", "--seed", "3")


def test_arguments_of_every_kind_become_flags() -> None:
    arguments = {
        "enable_chunked_prefill": False,
        "async_scheduling": True,
        "speculative_config": {"method": "ngram"},
        "max_model_len": None,
        "host": "0.0.0.0",
    }
    flags = twin(small(arguments=arguments), acceptance="0.5").config.engine_flags
    assert flags == (
        "--no-enable-chunked-prefill",
        "--async-scheduling",
        "--speculative-config",
        '{"method": "ngram"}',
    )


def test_lists_become_values_of_their_flag_and_sizes_are_said_once() -> None:
    arguments = {
        "lora_modules": ["a=/b", {"name": "c", "path": "/d"}],
        "cudagraph_capture_sizes": [1, 2, 3],
        "max_cudagraph_capture_size": 3,
        "compilation_config": {"mode": "NONE", "cudagraph_capture_sizes": [1, 2, 3]},
        "middleware": [],
    }
    flags = twin(small(arguments=arguments, cuda_graph_sizes=(1, 2))).config.engine_flags
    assert flags == (
        *("--lora-modules", "a=/b", '{"name": "c", "path": "/d"}'),
        *("--compilation-config", '{"mode": "NONE"}'),
        *("--cudagraph-capture-sizes", "1", "2"),
    )


@pytest.mark.parametrize(
    ("said", "sizes", "flags"),
    [
        ({"cuda_graph_bs_decode": [1, 2]}, None, ("--cuda-graph-bs-decode", "1", "2")),
        ({"cuda_graph_max_bs_decode": 9}, (1, 8), ("--cuda-graph-bs-decode", "1", "8")),
        ({"disable_decode_cuda_graph": True}, (), ("--disable-decode-cuda-graph",)),
        (
            {"cuda_graph_config": {"decode": {"backend": "disabled"}, "prefill": {"backend": "x"}}},
            (),
            ("--disable-decode-cuda-graph",),
        ),
        (
            {"cuda_graph_config": {"prefill": {"backend": "disabled"}}},
            (1,),
            ("--disable-prefill-cuda-graph", "--cuda-graph-bs-decode", "1"),
        ),
    ],
)
def test_graphs_of_sglang_s_are_repeated_by_phase(
    said: dict[str, Any], sizes: tuple[int, ...] | None, flags: tuple[str, ...]
) -> None:
    real = small(engine="sglang", engine_version="0.5.23", arguments=said, cuda_graph_sizes=sizes)
    assert twin(real).config.engine_flags == flags


def test_an_engine_without_graphs_has_none() -> None:
    assert twin(small(cuda_graph_sizes=())).config.engine_flags == ("--enforce-eager",)


def test_one_gpu_for_each_rank() -> None:
    assert twin(small(tensor_parallel=2, data_parallel=2)).config.gpu == "h100-sxm:4"


def test_a_concurrency_is_kept_and_not_the_times_that_came_of_it() -> None:
    config = twin(small(workload=Workload(max_concurrency=8, rate=math.inf))).config
    assert (config.max_concurrency, config.rate, config.arrival) == (8, math.inf, "poisson")


def test_under_a_concurrency_requests_come_from_the_same_process() -> None:
    limited = Workload(max_concurrency=8, rate=4.0, arrivals="gamma", burstiness=0.2)
    config = twin(small(workload=limited)).config
    assert (config.max_concurrency, config.rate, config.arrival) == (8, 4.0, "gamma:0.2")


def test_unknown_sending_times_are_drawn_and_said_to_be() -> None:
    unknown = request(arrival_s=None)
    made = twin(small(unknown, workload=Workload(rate=4.0, arrivals="gamma", burstiness=0.5)))
    assert (made.config.arrival, made.config.rate) == ("gamma:0.5", 4.0)
    assert any("drawn at the same rate" in note for note in made.notes)
    even = twin(small(unknown, workload=Workload(rate=4.0, arrivals="constant")))
    assert even.config.arrival == "constant"
    with pytest.raises(TwinError, match="neither when requests were sent nor at which rate"):
        twin(small(unknown))


def test_requests_that_can_not_be_sent() -> None:
    failed = Request(status="failed", error="refused", arrival_s=0.1)
    made = twin(small(request(), failed))
    assert len(made.requests) == 1
    assert any("1 requests that failed are left out" in note for note in made.notes)
    empty = twin(small(request(), request(output_tokens=0)))
    assert len(empty.requests) == 1
    assert any("1 requests without a token" in note for note in empty.notes)
    with pytest.raises(TwinError, match="nothing to send again"):
        twin(small(failed))
    with pytest.raises(TwinError, match="do not say how long"):
        twin(small(request(output_tokens=None)))
    with pytest.raises(TwinError, match="only figures"):
        twin(read_run(DATA / "real_runs" / "vllm-summary.json"))


def test_instants_count_from_the_first_request_that_is_sent(tmp_path: Path) -> None:
    failed = Request(status="failed", error="refused", arrival_s=0.0)
    later = [request(arrival_s=at_s, queued_s=at_s + 0.1) for at_s in (2.0, 5.0)]
    real = small(failed, *later).model_copy(update={"series": (Sample(time_s=2.5, running=1),)})
    made = twin(real)
    assert [r.arrival_s for r in made.requests] == [0.0, 3.0]
    assert [r.queued_s for r in made.requests] == pytest.approx([0.1, 3.1])
    assert made.sent.series[0].time_s == 0.5
    write_arrivals(tmp_path / "arrivals.csv", made.requests)
    rows = (tmp_path / "arrivals.csv").read_text().splitlines()[1:]
    assert [row.split(",")[0] for row in rows] == ["0", "3000000000"]


def test_a_log_whose_arguments_are_unread_makes_no_twin(tmp_path: Path) -> None:
    text = gzip.decompress(VLLM_LOG.read_bytes()).decode()
    log = tmp_path / "server.log"
    log.write_text(text.replace("non-default args: {", "non-default args: {'odd': <object at 0>, "))
    command = ["replay", str(VLLM), str(log), "--gpu", "h100-sxm", "--dry-run"]
    refused = CliRunner().invoke(app, command)
    assert refused.exit_code == 2
    assert "a twin would be started without them" in refused.output
    log.write_text(re.sub("non-default args.*", "", text))
    shown = CliRunner().invoke(app, command)
    assert shown.exit_code == 0, shown.output
    assert "warning: the log does not say with which arguments" in shown.stderr


def test_the_command_shows_the_experiment() -> None:
    shown = CliRunner().invoke(
        app,
        ["replay", str(RTX_4090), "--predictor", "analytic", "--dry-run", "--", "--seed", "1"],
    )
    assert shown.exit_code == 0, shown.output
    config = RunConfig.model_validate(yaml.safe_load(shown.stdout))
    assert (config.gpu, config.engine_flags[-2:]) == ("rtx-4090:1", ("--seed", "1"))
    refused = CliRunner().invoke(app, ["replay", str(RTX_PRO_6000), "--dry-run"])
    assert refused.exit_code == 2
    assert "say --gpu" in refused.output


def test_a_run_of_sglang_s_is_repeated_with_what_decides_its_steps() -> None:
    arguments = {
        "model_path": "/somewhere", "host": "0.0.0.0", "tp_size": 2, "dp_size": 1,
        "max_running_requests": None, "page_size": 64, "attention_backend": "fa3",
        "enable_mixed_chunk": True, "enable_dp_attention": False, "schedule_policy": "lpm",
    }  # fmt: skip
    said: dict[str, Any] = {"engine": "sglang", "engine_version": "0.5.23", "arguments": arguments}
    config = twin(small(**said, max_num_seqs=4096, kv_tokens=9_000, cuda_graph_sizes=())).config
    assert (config.engine, config.kv_tokens) == ("sglang==0.5.23", 9_000)
    assert config.engine_flags == (
        *("--tp-size", "2", "--page-size", "64", "--schedule-policy", "lpm"),
        *("--enable-mixed-chunk", "--disable-cuda-graph"),
    )


def test_what_is_known_of_a_run_of_sglang_s_without_its_arguments() -> None:
    known: dict[str, Any] = {"max_num_seqs": 64, "prefix_caching": False}
    flags = twin(small(engine="sglang", engine_version="0.5.23", **known)).config.engine_flags
    assert flags == ("--max-running-requests", "64", "--disable-radix-cache")


def test_a_run_of_sglang_s_that_has_no_twin() -> None:
    with pytest.raises(TwinError, match="flags vllm does not know: say --engine sglang==…"):
        twin(small(engine="sglang", engine_version=None), engine="vllm==0.24.0")
    with pytest.raises(TwinError, match="say --engine sglang==…"):
        twin(small(engine="sglang", engine_version=None))
    with pytest.raises(TwinError, match="only the prefill part"):
        twin(small(engine="sglang", arguments={"disaggregation_mode": "prefill"}))


@pytest.mark.parametrize(
    "drafting",
    [
        {"engine": "sglang", "arguments": {"speculative_algorithm": "NEXTN"}},
        {"arguments": {"speculative_config": {"method": "ngram"}}},
    ],
)
def test_what_was_accepted_of_drafts_is_asked_for(drafting: dict[str, Any]) -> None:
    real = small(**drafting | {"engine_version": "0.5.23"})
    with pytest.raises(TwinError, match="say --acceptance"):
        twin(real)
    assert twin(real, acceptance="0.8,0.6").config.acceptance == "0.8,0.6"

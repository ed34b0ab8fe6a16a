"""What users have reported of a vLLM server, told by its number: the emulator must show it, too.

Shown here, on vLLM 0.24.0, as far as that version still has it:

| report | what |
|---|---|
| vllm 39734 | a request longer than the KV cache under a hybrid model: the deadlock is said |
| vllm 42381 | a prompt that is one token too long is refused, and the server goes on |
| vllm 10432 | no tokens asked for: refused at once |
| vllm 25780 | what preempted requests compute again does not count as reuse |
| vllm 21104, 45502, 39963 | the rate that was asked for, with long contexts too |
| vllm-ascend 16315 | preemption under memory pressure: throughput collapses |
| tandemn-system 11 | 256 requests at once on 77,088 tokens: 72 run, 184 wait |
| inference-sim 1057 | with a tight KV cache all requests end |
| vidur 60 | prompts that are too long are counted |
| sglang 12389, 6525 | what was not measured is no zero |
| vllm 51984, 53578 | a rank of experts that skips its step: the others wait, and it is said |
| vllm 27379, 19254, 16258 | drafts pay for one request, and not under high load |
| vllm 40244 | the block size of a hybrid model is the resolved one |

Elsewhere: an NCCL library that is opened by path, with four ranks (HAMi 2641, 2760), in
``tests/test_nccl.py``; SGLang's (sglang 33984, 32724, 12809) in ``test_sglang_reports.py``.
"""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest

from tests.engine.features import feature
from tests.engine.pressure import (
    BLOCK_TOKENS,
    CONCURRENCY,
    KV_BLOCKS,
    STEP_S,
    Load,
    Pressure,
    client,
    prompt,
    request,
)
from tests.engine.served import completion
from tests.engine.served import prompt as token_ids
from tests.engine.served import serve as serve_bursts
from tests.engine.sessions import ENGINE, MODEL, TEXT_WAIT_S, serve
from tests.harness import CLIENTS, Warpserve, free_port
from warpserve.bench.results import read_vllm_results

GEMMA = "google/gemma-3-27b-it"
EXPERTS = "Qwen/Qwen3-30B-A3B"


def batch_sizes(pressure: Pressure, load: Load) -> list[int]:
    return [len(step["requests"]) for step in pressure.steps(load)]


def test_nothing_failed_but_what_had_to(pressure: Pressure) -> None:
    assert pressure.served.exit_codes, pressure.served.log("server")
    for name in ("long_texts", "closed_loop", "growing"):
        assert set(pressure.load(name).statuses) == {200}, name


def test_no_tokens_asked_for_is_refused_at_once(pressure: Pressure) -> None:
    answer = pressure.load("refused").answers[0]
    assert (answer["status"], answer["took_s"]) == (400, 0)
    assert "max_tokens must be at least 1, got 0" in answer["answer"]["error"]["message"]


def test_a_prompt_too_long_by_a_token_is_refused_and_the_next_one_served(
    pressure: Pressure,
) -> None:
    _, refused, served = pressure.load("refused").answers
    assert (refused["status"], refused["took_s"]) == (400, 0)
    assert "maximum context length is 65536 tokens" in refused["answer"]["error"]["message"]
    assert (served["status"], served["took_s"]) == (200, pytest.approx(3 * STEP_S, abs=1e-9))


def test_prompts_of_46_000_tokens_keep_their_rate(pressure: Pressure) -> None:
    load = pressure.load("long_texts")
    for index, answer in enumerate(load.answers):
        assert answer["answer"]["usage"]["prompt_tokens"] > 46_000
        assert answer["sent_s"] == pytest.approx(0.5 * index, abs=1e-9)
        chunks_and_a_token = 6 + 1
        expected_s = TEXT_WAIT_S + chunks_and_a_token * STEP_S
        assert answer["took_s"] == pytest.approx(expected_s, abs=1e-9)
    starts_ns = [step["start_ns"] for step in pressure.steps(load)[::7]]
    assert {after - before for before, after in pairwise(starts_ns)} == {500_000_000}


def test_72_of_256_run_and_184_wait(pressure: Pressure) -> None:
    sizes = batch_sizes(pressure, pressure.load("closed_loop"))
    while_all_are_there = sizes[len(sizes) // 4 : len(sizes) // 2]
    assert statistics.median(while_all_are_there) == pytest.approx(72, abs=5)
    waiting = re.findall(r"Running: 7\d reqs, Waiting: (\d+) reqs", pressure.served.log("server"))
    assert any(abs(int(found) - 184) <= 5 for found in waiting), waiting


def test_as_many_are_preempted_as_on_the_real_server(pressure: Pressure) -> None:
    load = pressure.load("closed_loop")
    reported_share = 480 / 5_000
    share = load.metric("vllm:num_preemptions_total") / len(load.answers)
    assert reported_share / 3 < share < reported_share * 3


def test_preemption_takes_the_throughput_with_it(pressure: Pressure) -> None:
    load = pressure.load("growing")
    before = pressure.load("closed_loop").metric("vllm:num_preemptions_total")
    assert load.metric("vllm:num_preemptions_total") - before > CONCURRENCY / 4
    sizes = batch_sizes(pressure, load)
    assert max(sizes) == CONCURRENCY, "all fit while they are short"
    assert statistics.median(sizes[len(sizes) // 2 :]) < CONCURRENCY / 2
    kv_tokens = [
        sum(new + cached for new, cached, _ in s["requests"]) for s in pressure.steps(load)
    ]
    assert max(kv_tokens) <= KV_BLOCKS * BLOCK_TOKENS


def test_what_preempted_requests_compute_again_is_no_reuse(pressure: Pressure) -> None:
    load = pressure.load("growing")
    prompts = [step for step in pressure.steps(load) for r in step["requests"] if r[2]]
    assert len(prompts) > len(load.answers), "some prompts were computed more than once"
    assert load.metric("vllm:prefix_cache_queries_total") > 0
    assert load.metric("vllm:prefix_cache_hits_total") == 0, "all prompts are random"


def test_all_requests_end_in_a_bounded_number_of_steps(pressure: Pressure) -> None:
    for name, output_tokens in (("closed_loop", 300), ("growing", 600)):
        load = pressure.load(name)
        assert all(answer["status"] == 200 for answer in load.answers)
        steps = pressure.steps(load)
        assert all(step["requests"] for step in steps)
        one_after_the_other = len(load.answers) * output_tokens
        assert len(steps) < one_after_the_other / 10


def test_prompts_that_are_too_long_are_counted(pressure: Pressure) -> None:
    printed = pressure.served.log("bench")
    assert re.search(r"Successful requests: +3\b", printed), printed
    assert re.search(r"Failed requests: +2\b", printed), printed


def test_what_was_not_measured_is_no_zero(pressure: Pressure) -> None:
    requests = read_vllm_results(pressure.served.folder / "bench.json")
    failed = [request for request in requests if request.error]
    assert len(failed) == 2
    assert all("Bad Request" in (request.error or "") for request in failed)
    assert all(request.ttft_s is None and request.itl_s == () for request in failed)
    measured = [request.ttft_s for request in requests if not request.error]
    assert measured == [pytest.approx(TEXT_WAIT_S + STEP_S, abs=1e-9)] * 3


def test_a_deadlock_of_the_scheduler_is_said_and_ends_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """5,600 blocks hold 12,800 tokens of all layers, or 33,000 where five of six keep a window; in
    0.33 layers are put together in another way, and it takes more of them.

    vLLM 0.24.0 admits what fits by the second count, older ones by the first.
    """
    blocks = 8_600 if ENGINE.version == "0.33.0" else 5_600
    monkeypatch.setenv("PYTHONPATH", str(CLIENTS))
    port = free_port()
    load = [request(prompt(32_000), output_tokens=10, model=GEMMA)]
    flags = (
        "--max-model-len", "32768", "--num-gpu-blocks-override", str(blocks),
        "--scheduler-cls", "old_admission.OldAdmission",
    )  # fmt: skip
    clients = {"long": client(tmp_path, port, "long", load)}
    served = serve(tmp_path, clients, port=port, flags=flags, model=GEMMA)
    assert served.exit_codes.get("long") == 0, served.log("server")
    (answer,) = json.loads((tmp_path / "long.json").read_text())["answers"]
    assert answer["status"] == 500
    assert 10 <= answer["took_s"] < 11
    assert "vLLM's scheduler is in a deadlock" in served.log("server")
    said = f"with 32000 tokens; {blocks - 1} blocks of the KV cache are free"
    assert said in served.log("server")


@pytest.mark.thorough
def test_an_idle_rank_of_experts_that_takes_no_step_is_waited_for_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(CLIENTS))
    port = free_port()
    load = [request(prompt(100), output_tokens=5, model=EXPERTS)]
    flags = (
        "--data-parallel-size", "2", "--enable-expert-parallel",
        "--hf-overrides", '{"num_hidden_layers": 2}',
        "--scheduler-cls", "skipped_dummies.SkippedDummies",
    )  # fmt: skip
    clients = {"one": client(tmp_path, port, "one", load)}
    served = serve(tmp_path, clients, port=port, flags=flags, model=EXPERTS, gpu="h100-sxm:2")
    (answer,) = json.loads((tmp_path / "one.json").read_text())["answers"]
    assert answer["status"] == 500
    vllms_own_limit_s = 300
    assert answer["took_s"] == pytest.approx(vllms_own_limit_s, abs=1)
    assert not served.steps, "no rank goes on alone"
    assert "another data-parallel rank has not come to this step" in served.log("server")


@pytest.mark.thorough
def test_drafts_pay_for_one_request_and_cost_at_high_load(
    warpserve: Warpserve, tmp_path: Path
) -> None:
    """Drafts are nearly free while the weights' way from memory is what a step takes, and not once
    its arithmetic is. What is accepted is the same.
    """
    drafts = {"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 4}
    speculation = [f"--speculative-config={json.dumps(drafts)}"]
    one = [completion(token_ids(0, 100), 100)]
    many = [completion(token_ids(n, 100), 100) for n in range(256)]

    def took_ms(name: str, *flags: str, options: Sequence[str] = ()) -> list[float]:
        served = serve_bursts(
            warpserve,
            tmp_path / name,
            MODEL,
            *flags,
            bursts=[one, many],
            options=options,
            predictor="analytic",
        )
        return [max(answer["times_ms"][-1] for answer in burst) for burst in served.answers]

    plain_one, plain_many = took_ms("plain")
    drafted_one, drafted_many = took_ms(
        "drafted", *speculation, options=["--acceptance=0.6,0.35,0.2"]
    )
    accepted_a_step = 0.6 + 0.35 + 0.2
    assert 0.9 * plain_one / (1 + accepted_a_step) < drafted_one < 0.6 * plain_one
    assert drafted_many > plain_many


@feature("Linear attention, hybrid models", "the model's own")
@pytest.mark.thorough
def test_the_block_size_is_the_one_that_the_engine_resolves(
    warpserve: Warpserve, tmp_path: Path
) -> None:
    """A block of attention holds as much as the state of a linear layer, whatever was asked for."""
    model = linear_attention_model(tmp_path / "model")
    served = serve_bursts(
        warpserve,
        tmp_path / "run",
        model,
        f"--tokenizer={MODEL}",
        "--block-size=32",
        "--mamba-ssm-cache-dtype=float32",
        "--max-model-len=8192",
        bursts=[[completion(token_ids(0, 3_000), 3)]],
    )
    said = re.search(r"Setting attention block size to (1056|1088) tokens", served.log)
    assert said, served.log
    assert any(f'block_size="{said[1]}"' in name for name in served.metrics)
    assert len(served.answers[0][0]["times_ms"]) == 3


def linear_attention_model(folder: Path) -> Path:
    """Four layers of Qwen3-Next-80B-A3B, one of which has full attention, with few experts."""
    folder.mkdir()
    config = {
        "architectures": ["Qwen3NextForCausalLM"],
        "model_type": "qwen3_next",
        "hidden_size": 2048,
        "intermediate_size": 5120,
        "num_hidden_layers": 4,
        "full_attention_interval": 4,
        "num_attention_heads": 16,
        "num_key_value_heads": 2,
        "head_dim": 256,
        "linear_num_key_heads": 16,
        "linear_num_value_heads": 32,
        "linear_key_head_dim": 128,
        "linear_value_head_dim": 128,
        "linear_conv_kernel_dim": 4,
        "decoder_sparse_step": 1,
        "num_experts": 16,
        "num_experts_per_tok": 10,
        "moe_intermediate_size": 512,
        "shared_expert_intermediate_size": 512,
        "norm_topk_prob": True,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-6,
        "rope_theta": 10_000_000,
        "partial_rotary_factor": 0.25,
        "max_position_embeddings": 262144,
        "vocab_size": 151936,
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
    }
    (folder / "config.json").write_text(json.dumps(config))
    return folder

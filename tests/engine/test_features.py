"""The real vLLM's features under its own flags, each shown by its metrics, log or step log."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from packaging.version import Version

from tests.engine.configurations import COLBERT, EAGLE_3, described
from tests.engine.features import feature
from tests.engine.served import Answered, beside_first_steps_ms, completion, prompt, serve
from tests.engine.sessions import ENGINE, sessions, vllm_bin
from tests.harness import Warpserve
from warpserve.predictors.eager import LAUNCH_NS

LLAMA = "meta-llama/Llama-3.1-8B-Instruct"
STEP_MS = 20.0
CORE_SLEEP_MS = 1.0
"""vLLM's engine core sleeps as long when it finds nothing to do; a request may wait for its end."""
ASYNCHRONOUS = "Asynchronous scheduling is enabled"
SAYS_ASYNCHRONOUS = Version(ENGINE.version) < Version("0.33")
OFFLOADS_PLAIN_CACHES_ONLY = ENGINE.version == "0.19.0"


@pytest.fixture(scope="module")
def dense(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Answered]:
    """One server, asked for all that needs no flag of its own."""
    shared = prompt(0, 3_000)
    choice = {"structured_outputs": {"choice": ["positive", "negative"]}, "max_tokens": 16}
    bursts = [
        [completion(prompt(1, 5_000), 3)],
        [completion(shared, 2)],
        [completion(shared, 2)],
        [completion(prompt(number, 50), 6) for number in (2, 3, 4)],
        [{"path": "/v1/completions", "body": {"prompt": "Well?"} | choice}],
    ]
    with sessions() as warpserve:
        yield serve(
            warpserve,
            tmp_path_factory.mktemp("dense"),
            LLAMA,
            "--max-num-batched-tokens=2048",
            bursts=bursts,
        )


@feature("Chunked prefill", "--max-num-batched-tokens 2048")
def test_chunked_prefill(dense: Answered) -> None:
    """A prompt of 5,000 tokens is computed in steps of 2,048, 2,048 and 904; its first token comes
    with the third.
    """
    (steps,) = dense.steps
    chunks = [step["requests"][0] for step in steps[:3]]
    assert chunks == [[2048, 0, True], [2048, 2048, True], [904, 4096, True]]
    ((answer,), *_) = dense.answers
    assert answer["times_ms"] == [3 * STEP_MS, 4 * STEP_MS, 5 * STEP_MS]


@feature("Prefix caching", "on by default")
def test_prefix_caching(dense: Answered) -> None:
    """A prompt asked again computes less than one block of it, and vllm:prefix_cache_hits counts
    the rest.
    """
    first, again = (dense.answers[i][0]["times_ms"][0] for i in (1, 2))
    assert 0 <= first - 2 * STEP_MS <= CORE_SLEEP_MS
    assert 0 <= again - STEP_MS <= CORE_SLEEP_MS
    assert dense.metrics["vllm:prefix_cache_hits_total"] == 3_000 // 16 * 16
    (steps,) = dense.steps
    assert [8, 2_992, True] in [request for step in steps for request in step["requests"]]


@feature("Asynchronous scheduling", "on by default")
def test_asynchronous_scheduling(dense: Answered) -> None:
    """The engine says so in its log, which that of 0.33 does not; and a step begins at the very
    instant at which the one before ends, because it was scheduled during that.
    """
    if SAYS_ASYNCHRONOUS:
        assert ASYNCHRONOUS in dense.log
    (steps,) = dense.steps
    for before, after in pairwise(steps[:5]):
        assert after["start_ns"] == before["end_ns"]


@feature("CUDA graphs", "on by default")
def test_cuda_graph_dispatch(dense: Answered) -> None:
    """Three requests decode in a step padded to the captured size of four."""
    (steps,) = dense.steps
    decodes = [step for step in steps if [r[0] for r in step["requests"]] == [1, 1, 1]]
    assert decodes
    assert {step["padded_tokens"] for step in decodes} == {4}


@feature("No CUDA graphs", "--enforce-eager")
def test_eager_steps(tmp_path: Path) -> None:
    """The step log marks each step; none of them takes less than the launches of its 320 kernels,
    16 ms, which is more than decodes take on an H100.
    """
    with sessions() as warpserve:
        served = serve(
            warpserve, tmp_path, LLAMA, "--enforce-eager",
            predictor="analytic", bursts=[[completion(prompt(1, 20), 4)]],
        )  # fmt: skip
    (steps,) = served.steps
    assert [(step["eager"], step["duration_ns"]) for step in steps] == [(True, 320 * LAUNCH_NS)] * 4


@feature("Structured output", "structured_outputs, response_format")
def test_structured_output(dense: Answered) -> None:
    """Of two allowed answers the text is one."""
    (answer,) = dense.answers[4]
    assert json.loads(answer["text"])["choices"][0]["text"] in ("positive", "negative")


@feature("Priorities, preemption", "--scheduling-policy priority")
def test_priorities_and_preemption(warpserve: Warpserve, tmp_path: Path) -> None:
    """With blocks for one long answer only, the less urgent request is preempted
    (vllm:num_preemptions), computes its outputs again, and ends last.
    """
    late, urgent = (
        completion(prompt(number, 600), 300, priority=priority)
        for number, priority in ((1, 10), (2, 0))
    )
    served = serve(
        warpserve,
        tmp_path,
        LLAMA,
        "--scheduling-policy=priority",
        "--no-enable-prefix-caching",
        "--num-gpu-blocks-override=90",
        "--max-model-len=1200",
        bursts=[[late, urgent]],
    )
    assert served.metrics["vllm:num_preemptions_total"] >= 1
    less_urgent, more_urgent = served.answers[0]
    assert len(less_urgent["times_ms"]) == len(more_urgent["times_ms"]) == 300
    assert more_urgent["times_ms"][-1] < less_urgent["times_ms"][-1]
    recomputed = [r for step in served.steps[0] for r in step["requests"] if r[2] and r[0] > 600]
    assert recomputed, "prompt and outputs together"


@feature("Tensor parallelism, ghost ranks", "--tensor-parallel-size 2")
def test_one_worker_stands_for_both_ranks(warpserve: Warpserve, tmp_path: Path) -> None:
    """With a process for each rank (--no-ghost-ranks) the KV cache has as many tokens, to 0.01 %
    (in 0.33 ranks share 2 MiB that a ghost does not); each token of each request comes at the same
    instant.
    """
    bursts = [[completion(prompt(n, 40 * n + 10), 8) for n in range(6)]]
    ghosts, processes = (
        serve(
            warpserve,
            tmp_path / option,
            LLAMA,
            "--tensor-parallel-size=2",
            gpu="h100-sxm:2",
            bursts=bursts,
            options=[option],
        )
        for option in ("--ghost-ranks", "--no-ghost-ranks")
    )
    assert (len(ghosts.steps), len(processes.steps)) == (1, 2)
    assert ghosts.kv_cache_tokens == pytest.approx(processes.kv_cache_tokens, rel=1e-4)
    assert ghosts.answers == processes.answers


@feature("Pipeline parallelism", "--pipeline-parallel-size 2")
def test_pipeline_parallelism(warpserve: Warpserve, tmp_path: Path) -> None:
    """A token takes a step of each of two stages and NCCL's transfer between them; of a long
    prompt, the second stage computes one chunk while the first computes the next.
    """
    served = serve(
        warpserve,
        tmp_path,
        LLAMA,
        "--pipeline-parallel-size=2",
        "--max-num-batched-tokens=2048",
        gpu="h100-sxm:2",
        bursts=[[completion(prompt(1, 100), 5)], [completion(prompt(2, 8_000), 1)]],
    )
    alone, (long_prompt,) = (served.answers[i][0]["times_ms"] for i in range(2))
    assert 5 * STEP_MS < long_prompt < 6 * STEP_MS, "four chunks, not twice four steps"
    assert 2 * STEP_MS < alone[0] < 2 * STEP_MS + 1
    longest_ms = 2 * STEP_MS + 1 + CORE_SLEEP_MS
    assert all(2 * STEP_MS < b - a < longest_ms for a, b in pairwise(alone))
    assert len(served.steps) == 2


@pytest.mark.thorough
def test_each_rank_of_each_stage_logs_all_its_steps(warpserve: Warpserve, tmp_path: Path) -> None:
    """The last one, too, of a rank that nobody asks for its outcome: when it ends is not known
    while the stage before works.
    """
    served = serve(
        warpserve,
        tmp_path,
        LLAMA,
        "--pipeline-parallel-size=2",
        "--tensor-parallel-size=2",
        "--max-num-batched-tokens=2048",
        gpu="h100-sxm:4",
        bursts=[[completion(prompt(2, 8_000), 1)]],
    )
    assert [len(of_worker) for of_worker in served.steps] == [4] * 4


@pytest.mark.thorough
def test_servers_take_what_is_said_of_each_request(warpserve: Warpserve, tmp_path: Path) -> None:
    """Before it comes to the scheduler; beside the first step, a token has waited for nothing."""
    lengths = (130, 1_000)
    served = serve(
        warpserve,
        tmp_path,
        LLAMA,
        predictor="analytic:request_host=5ms,prompt_token_host=4us",
        bursts=[[completion(prompt(n, n), 1)] for n in lengths],
    )
    assert beside_first_steps_ms(served, lengths) == pytest.approx([5.52, 9.0], abs=1e-6)


@feature("Speculative decoding: n-gram", "--speculative-config, with --acceptance of warpserve")
def test_speculative_decoding_with_n_grams(warpserve: Warpserve, tmp_path: Path) -> None:
    """Per draft position, vLLM's metrics count as many accepted tokens as the user said."""
    config = {"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 4}
    _check_acceptance(
        serve(
            warpserve,
            tmp_path,
            LLAMA,
            f"--speculative-config={json.dumps(config)}",
            bursts=[[completion(prompt(n, 100), 200) for n in range(20)]],
            options=["--acceptance=0.8,0.6,0.4"],
        )
    )


@feature("Speculative decoding: draft model, EAGLE", "--speculative-config")
@pytest.mark.parametrize(
    "method", [pytest.param("draft_model", marks=pytest.mark.thorough), "eagle3"]
)
def test_speculative_decoding_with_a_model(
    warpserve: Warpserve, tmp_path: Path, method: str
) -> None:
    """Likewise; the drafter is loaded. With EAGLE scheduling is asynchronous, so that the scheduler
    learns of rejections a step late.
    """
    drafter = LLAMA if method == "draft_model" else str(_eagle_head(tmp_path / "head"))
    config = {"method": method, "model": drafter, "num_speculative_tokens": 3}
    served = serve(
        warpserve,
        tmp_path,
        LLAMA,
        f"--speculative-config={json.dumps(config)}",
        bursts=[[completion(prompt(n, 100), 200) for n in range(20)]],
        options=["--acceptance=0.8,0.6,0.4"],
    )
    if SAYS_ASYNCHRONOUS:
        is_asynchronous = ASYNCHRONOUS in served.log
        assert is_asynchronous == (method == "eagle3")
    _check_acceptance(served)


def _check_acceptance(served: Answered) -> None:
    drafts = served.metrics["vllm:spec_decode_num_drafts_total"]
    assert drafts > 1_000
    for position, rate in enumerate((0.8, 0.6, 0.4)):
        name = f'vllm:spec_decode_num_accepted_tokens_per_pos_total{{position="{position}"}}'
        assert served.metrics[name] / drafts == pytest.approx(rate, abs=0.04)
    for answer in served.answers[0]:
        assert sum(map(len, answer["token_ids"])) == 200


def _eagle_head(folder: Path) -> Path:
    return described(folder, {**EAGLE_3, "max_position_embeddings": 2048})


@feature("Mixture of experts: data and expert parallelism", "-dp 2 --enable-expert-parallel")
def test_experts_work_in_lock_step(warpserve: Warpserve, tmp_path: Path) -> None:
    """Two engines take each step together, from the same instant to the same instant, the one
    without requests with a dummy batch. Within CUDA graphs both are padded to the larger.
    """
    served = serve(
        warpserve,
        tmp_path,
        "Qwen/Qwen3-30B-A3B",
        "--data-parallel-size=2",
        "--enable-expert-parallel",
        gpu="h100-sxm:2",
        bursts=[
            [completion(prompt(1, 100), 5)],
            [completion(prompt(n, 60), 8) for n in range(3)],
            [completion(prompt(4, 1_500), 4)],
        ],
    )
    assert served.answers[0][0]["times_ms"][0] == STEP_MS
    one, two = ([(s["start_ns"], s["end_ns"]) for s in steps] for steps in served.steps)
    assert len(one) > 10
    # A wave ends for one of them a step before the other.
    assert set(one) <= set(two) or set(two) <= set(one)
    dummies = [step for steps in served.steps for step in steps if not step["request_ids"]]
    assert dummies
    # Too long for a CUDA graph: nobody is padded to it, and the experts see what there is.
    long = [s for steps in served.steps for s in steps if s.get("shared_tokens", 0) >= 1_500]
    assert sorted(step["padded_tokens"] for step in long) == [1, 1_500]
    assert {step["shared_tokens"] for step in long} == {1_501}


@feature("LoRA", "--enable-lora --lora-modules NAME=PATH")
def test_lora(warpserve: Warpserve, tmp_path: Path) -> None:
    """Requests name the adapter as their model, and vllm:lora_requests_info counts it."""
    adapter = _adapter(tmp_path / "adapter")
    served = serve(
        warpserve,
        tmp_path,
        LLAMA,
        "--enable-lora",
        f"--lora-modules=tuned={adapter}",
        "--max-lora-rank=8",
        bursts=[[completion(prompt(1, 50), 4)], [completion(prompt(2, 50), 4, model="tuned")]],
    )
    for (answer,) in served.answers:
        first_ms, *_ = answer["times_ms"]
        assert 0 <= first_ms - STEP_MS <= CORE_SLEEP_MS
        assert [after - before for before, after in pairwise(answer["times_ms"])] == [STEP_MS] * 3
    assert any("running_lora_adapters" in name and "tuned" in name for name in served.metrics)


def _adapter(folder: Path) -> Path:
    """A LoRA adapter of rank 8 for one projection."""
    script = """
import json, pathlib, sys, torch
from safetensors.torch import save_file
folder = pathlib.Path(sys.argv[1])
folder.mkdir()
config = {"peft_type": "LORA", "r": 8, "lora_alpha": 16, "target_modules": ["q_proj"],
          "bias": "none", "task_type": "CAUSAL_LM"}
(folder / "adapter_config.json").write_text(json.dumps(config))
name = "base_model.model.model.layers.0.self_attn.q_proj.lora_"
save_file({name + "A.weight": torch.zeros(8, 4096), name + "B.weight": torch.zeros(4096, 8)},
          folder / "adapter_model.safetensors")
"""
    subprocess.run([vllm_bin() / "python", "-c", script, folder], check=True)
    return folder


@feature("KV offload to CPU memory", "--kv-offloading-size")
def test_kv_offload(warpserve: Warpserve, tmp_path: Path) -> None:
    """Prompts that no longer fit the GPU's blocks come back from the host
    (vllm:external_prefix_cache_hits), faster than they were computed.
    """
    prompts = [completion(prompt(n, 8_000), 2) for n in range(8)]
    served = serve(
        warpserve,
        tmp_path,
        LLAMA,
        "--kv-offloading-size=20",
        *(["--disable-hybrid-kv-cache-manager"] if OFFLOADS_PLAIN_CACHES_ONLY else []),
        "--max-num-batched-tokens=2048",
        "--num-gpu-blocks-override=2000",
        "--max-model-len=16000",
        bursts=[*([request] for request in prompts), [prompts[0]]],
    )
    computed, loaded = (served.answers[i][0]["times_ms"][0] for i in (0, 8))
    assert served.metrics["vllm:external_prefix_cache_hits_total"] > 7_000
    assert loaded < computed


@feature("Pooling models", "--runner pooling")
def test_pooling(warpserve: Warpserve, tmp_path: Path) -> None:
    """Embeddings have the model's width and differ by text; a long prompt takes its chunks."""
    served = serve(
        warpserve,
        tmp_path,
        LLAMA,
        "--runner=pooling",
        "--convert=embed",
        "--max-num-batched-tokens=2048",
        bursts=[
            [{"path": "/v1/embeddings", "body": {"input": ["a text", "another", "a text"]}}],
            [{"path": "/pooling", "body": {"input": prompt(1, 5_000)}}],
        ],
    )
    vectors = [entry["embedding"] for entry in json.loads(served.answers[0][0]["text"])["data"]]
    assert [len(vector) for vector in vectors] == [4096] * 3
    assert vectors[0] == vectors[2] != vectors[1]
    chunks = [step["requests"] for step in served.steps[0] if step["requests"][0][0] > 100]
    assert chunks == [[[2048, 0, True]], [[2048, 2048, True]], [[904, 4096, True]]]


@feature("Late interaction (ColBERT)", "/rerank")
@pytest.mark.thorough
def test_late_interaction(warpserve: Warpserve, tmp_path: Path) -> None:
    """Workers answer with a score for each document, the same for the same document."""
    documents = ["a text", "another", "a text"]
    served = serve(
        warpserve,
        tmp_path,
        described(tmp_path / "model", COLBERT),
        f"--tokenizer={LLAMA}",
        bursts=[[{"path": "/rerank", "body": {"query": "which?", "documents": documents}}]],
    )
    (answer,) = served.answers[0]
    results = {each["index"]: each for each in json.loads(answer["text"])["results"]}
    first, other, again = (results[place]["relevance_score"] for place in range(3))
    assert first == again != other


@feature("Sleep mode", "--enable-sleep-mode")
def test_sleep_mode(warpserve: Warpserve, tmp_path: Path) -> None:
    """/sleep frees the GPU's memory by as much as the engine's log says, /wake_up takes it again,
    and the next answer is as fast as before.
    """
    served = serve(
        warpserve,
        tmp_path,
        LLAMA,
        "--enable-sleep-mode",
        bursts=[
            [completion(prompt(1, 50), 3)],
            [{"path": "/sleep?level=1", "body": {}}],
            [{"path": "/wake_up", "body": {}}],
            [completion(prompt(2, 50), 3)],
        ],
        env={"VLLM_SERVER_DEV_MODE": "1"},
    )
    assert "Sleep mode freed" in served.log
    assert served.answers[0][0]["times_ms"] == served.answers[3][0]["times_ms"]


@feature("Several API servers", "--api-server-count 3")
@pytest.mark.thorough
def test_several_api_servers(warpserve: Warpserve, tmp_path: Path) -> None:
    """Three server processes answer, and two runs give the same times to the last digit."""
    runs = [
        serve(
            warpserve,
            tmp_path / str(run),
            LLAMA,
            "--api-server-count=3",
            bursts=[[completion(prompt(n, 30 + 40 * n), 12) for n in range(12)]],
        )
        for run in range(2)
    ]
    assert "ApiServer_2" in runs[0].log
    times = [[answer["times_ms"] for answer in run.answers[0]] for run in runs]
    assert times[0] == times[1]


@feature("FP8 models", "the model's own quantization_config")
@pytest.mark.thorough
def test_fp8(warpserve: Warpserve, tmp_path: Path) -> None:
    """The engine's log names the method, and it answers."""
    served = _few_layers(warpserve, tmp_path, "RedHatAI/Meta-Llama-3.1-70B-Instruct-FP8", layers=8)
    assert "quantization=compressed-tensors" in served.log


@feature("MLA", "the model's own")
def test_mla(warpserve: Warpserve, tmp_path: Path) -> None:
    """The engine's log names the attention backend, and keys and values of a token take 576
    numbers a layer.
    """
    served = _few_layers(warpserve, tmp_path, "deepseek-ai/DeepSeek-V3", layers=4)
    assert re.search(r"Using \w*MLA\w* attention backend", served.log)
    held_tokens = _kv_cache_bytes(served) / (4 * 576 * 2)
    assert served.kv_cache_tokens == pytest.approx(held_tokens, rel=0.01)


@feature("Sliding window, hybrid KV cache", "the model's own")
def test_sliding_window(warpserve: Warpserve, tmp_path: Path) -> None:
    """Of long requests, the KV cache holds more than three times as many tokens as if all layers
    kept all of them.
    """
    # A layer keeps its window and the tokens of one step.
    flags = ("--max-model-len=32768", "--max-num-batched-tokens=1024")
    served = _few_layers(warpserve, tmp_path, "google/gemma-3-27b-it", *flags, layers=12)
    keys_and_values_bytes = 2 * 16 * 128 * 2
    held_tokens = _kv_cache_bytes(served) / (12 * keys_and_values_bytes)
    said = re.search(r"Maximum concurrency for 32,768 tokens per request: ([\d.]+)x", served.log)
    assert said is not None
    assert float(said[1]) * 32_768 > 3 * held_tokens


@feature("Experts in Marlin's kernels", "--moe-backend marlin")
@pytest.mark.thorough
def test_marlin(warpserve: Warpserve, tmp_path: Path) -> None:
    """The engine's log names the kernels, and it answers."""
    served = _few_layers(
        warpserve, tmp_path, "openai/gpt-oss-20b", "--moe-backend=marlin", layers=4
    )
    assert re.search(r"Using '?MARLIN'? Mxfp4", served.log, re.IGNORECASE)


@feature("Experts in TRT-LLM's kernels", "gpt-oss, DeepSeek V3 on B200")
@pytest.mark.parametrize(
    ("model", "ranks"), [("openai/gpt-oss-20b", 1), ("deepseek-ai/DeepSeek-V3", 8)]
)
@pytest.mark.thorough
def test_large_blackwells(warpserve: Warpserve, tmp_path: Path, model: str, ranks: int) -> None:
    """The engine's log names the kernels, and it answers."""
    flag = f"--tensor-parallel-size={ranks}"
    served = _few_layers(warpserve, tmp_path, model, flag, layers=4, gpu=f"b200:{ranks}")
    assert re.search(r"Using '?FLASHINFER_TRTLLM\w*'? (Mxfp4|Fp8) MoE", served.log)


def _few_layers(
    warpserve: Warpserve,
    folder: Path,
    model: str,
    *flags: str,
    layers: int,
    gpu: str = "h100-sxm:1",
) -> Answered:
    served = serve(
        warpserve,
        folder,
        model,
        f'--hf-overrides={{"num_hidden_layers": {layers}}}',
        *flags,
        gpu=gpu,
        bursts=[[completion(prompt(1, 50), 3)]],
    )
    assert served.answers[0][0]["times_ms"] == [STEP_MS, 2 * STEP_MS, 3 * STEP_MS]
    return served


def _kv_cache_bytes(served: Answered) -> float:
    found = re.search(r"Available KV cache memory: ([\d.]+) GiB", served.log)
    assert found is not None
    return float(found[1]) * 2**30

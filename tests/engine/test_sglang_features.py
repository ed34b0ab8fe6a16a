"""The real SGLang's features under its own flags, each shown by its metrics, log or step log."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.engine.configurations import described
from tests.engine.features import feature
from tests.engine.served import Answered, beside_first_steps_ms, completion, prompt
from tests.engine.sessions import sessions
from tests.engine.sglang_served import IS_OLD, serve_sglang, sglang_python
from tests.harness import Warpserve
from warpserve.bench.models import model_named
from warpserve.predictors.batch import Batch, Launch, RequestStep, Sampling
from warpserve.predictors.deployment import Deployment
from warpserve.predictors.eager import LAUNCH_NS
from warpserve.predictors.from_catalogue import hardware_of
from warpserve.predictors.spec import predictor_of

LLAMA = "meta-llama/Llama-3.1-8B-Instruct"
STEP_MS = 20.0


def asked(prompt_tokens: list[int], max_tokens: int, rid: str, **more: Any) -> dict[str, Any]:
    return completion(prompt_tokens, max_tokens, rid=rid, **more)


def generated(prompt_tokens: list[int], max_tokens: int, rid: str, **more: Any) -> dict[str, Any]:
    """Asked SGLang's own way, whose answer tells the token ids. ``more``: of its sampling."""
    sampling = {"max_new_tokens": max_tokens, "ignore_eos": True} | more
    body = {"input_ids": prompt_tokens, "rid": rid, "sampling_params": sampling}
    return {"path": "/generate", "body": body}


def of(steps: list[dict[str, Any]], rid: str) -> list[list[Any]]:
    """What a request computed, step by step: [new tokens, cached tokens, is prefill]."""
    return [
        row
        for step in steps
        for name, row in zip(step["request_ids"], step["requests"], strict=True)
        if name == rid
    ]


def total(served: Answered, metric: str) -> float:
    """Whatever its labels say."""
    return sum(value for name, value in served.metrics.items() if name.startswith(metric))


@pytest.fixture(scope="module")
def dense(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Answered]:
    """One server, asked for all that needs no flag of its own."""
    shared = prompt(0, 3_000)
    given = {"warpserve_output_token_ids": "700,5,12"}
    wrong = {"warpserve_output_token_ids": "700,999999"}
    bursts = [
        [asked(prompt(1, 5_000), 3, "long")],
        [asked(shared, 2, "first")],
        [asked(shared, 2, "again")],
        [asked(prompt(number, 50), 6, f"side-{number}") for number in (2, 3, 4)],
        [generated(prompt(5, 10), 3, "given", custom_params=given)],
        [
            {
                "path": "/v1/completions",
                "body": {"prompt": "Well?", "regex": "(positive|negative)", "max_tokens": 16},
            }
        ],
        [
            {
                "path": "/generate",
                "body": {
                    "input_ids": prompt(6, 20),
                    "sampling_params": {"max_new_tokens": 3, "ignore_eos": True},
                    "return_logprob": True,
                    "logprob_start_len": 0,
                    "top_logprobs_num": 2,
                },
            }
        ],
        *([] if IS_OLD else [[generated(prompt(8, 10), 3, "beams", beam_width=2)]]),
        [generated(prompt(7, 10), 3, "wrong", custom_params=wrong)],
    ]
    with sessions() as warpserve:
        yield serve_sglang(
            warpserve,
            tmp_path_factory.mktemp("dense"),
            LLAMA,
            "--chunked-prefill-size=2048",
            bursts=bursts,
        )


@feature("Chunked prefill", "--chunked-prefill-size 2048")
def test_chunked_prefill(dense: Answered) -> None:
    """A prompt of 5,000 tokens is computed in steps of 2,048, 2,048 and 904; its first token comes
    with the third.
    """
    (steps,) = dense.steps
    assert of(steps, "long")[:3] == [[2048, 0, True], [2048, 2048, True], [904, 4096, True]]
    (answer,) = dense.answers[0]
    assert answer["times_ms"][:3] == [3 * STEP_MS, 4 * STEP_MS, 5 * STEP_MS]


@feature("Radix cache", "on by default")
def test_radix_cache(dense: Answered) -> None:
    """A prompt asked again computes its last token alone, and sglang:cached_tokens_total counts the
    rest.
    """
    (steps,) = dense.steps
    assert of(steps, "again")[0] == [1, 2_999, True]
    assert total(dense, "sglang:cached_tokens_total") >= 2_999


def test_an_answer_that_cannot_be_given_is_refused(dense: Answered) -> None:
    (answer,) = dense.answers[-1]
    assert answer["status"] == 400
    assert "999999 is none of 128,256 token ids" in answer["text"]


@pytest.mark.skipif(IS_OLD, reason="SGLang 0.5.14 has no beam search")
def test_beam_search_is_refused(dense: Answered) -> None:
    """It would go on for ever: beams are chosen by logits, which nobody computes."""
    (answer,) = dense.answers[-2]
    assert answer["status"] == 400
    assert "warpserve cannot run beam search" in answer["text"]


@feature("Overlap scheduling", "on by default")
def test_overlap_scheduling(dense: Answered) -> None:
    """A step begins at the very instant at which the one before ends, because it was scheduled
    during that.
    """
    (steps,) = dense.steps
    long = [step for step in steps if "long" in step["request_ids"]]
    assert len(long) >= 5
    for before, after in pairwise(long):
        assert after["start_ns"] == before["end_ns"]


@feature("CUDA graphs", "on by default")
def test_padding_to_graphs(dense: Answered) -> None:
    """Three requests decode in a step padded to the captured size of four; their 150 tokens were
    computed in a prefill graph of 160; and the log says so.
    """
    (steps,) = dense.steps
    decodes = [step for step in steps if [r[:1] for r in step["requests"]] == [[1]] * 3]
    assert {step["padded_tokens"] for step in decodes} == {4}
    (prefill,) = [s for s in steps if "side-2" in s["request_ids"] and s["requests"][0][2]]
    assert prefill["padded_tokens"] == 160
    assert "cuda graph: True" in dense.log


@feature("No CUDA graphs", "--disable-cuda-graph, --disable-prefill-cuda-graph")
@pytest.mark.thorough
def test_eager_steps(warpserve: Warpserve, tmp_path: Path) -> None:
    """The step log marks a prefill outside of graphs; it takes no less than the launches of its
    320 kernels, 16 ms, and a decode in a graph less than that.
    """
    served = serve_sglang(
        warpserve, tmp_path, LLAMA, "--disable-prefill-cuda-graph",
        predictor="analytic", bursts=[[asked(prompt(1, 20), 4, "one")]],
    )  # fmt: skip
    ours = [s for steps in served.steps for s in steps if s["request_ids"] == ["one"]]
    first, *decodes = ours
    assert (first["eager"], first["duration_ns"]) == (True, 320 * LAUNCH_NS)
    assert decodes
    assert not any("eager" in step for step in decodes)
    assert all(step["duration_ns"] < 320 * LAUNCH_NS for step in decodes)


@feature("Structured output", "regex, json_schema, response_format")
def test_structured_output(dense: Answered) -> None:
    """Of two allowed answers the text is one."""
    (answer,) = dense.answers[5]
    assert json.loads(answer["text"])["choices"][0]["text"] in ("positive", "negative")


def test_tokens_are_those_that_the_workload_gives(dense: Answered) -> None:
    (answer,) = dense.answers[4]
    assert json.loads(answer["text"])["output_ids"] == [700, 5, 12]


@feature("Log probabilities", "return_logprob")
def test_logprobs(dense: Answered) -> None:
    """Each token of prompt and answer has one, and as many beside it as were asked for."""
    (answer,) = dense.answers[6]
    meta = json.loads(answer["text"])["meta_info"]
    assert len(meta["output_token_logprobs"]) == 3
    assert len(meta["input_token_logprobs"]) == 20
    assert [len(top) for top in meta["output_top_logprobs"]] == [2, 2, 2]


@pytest.fixture(scope="module")
def pressed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Answered]:
    """A server with little KV cache."""
    bursts = [
        # Each counts as whole when it comes, and as little when it runs: it might end early.
        [
            asked(prompt(n, 400), 400, f"many-{n}", ignore_eos=False) | {"delay_s": n * 0.2}
            for n in range(6)
        ],
        [
            asked(prompt(20, 1_500), 200, "occupies"),
            {**asked(prompt(21, 1_200), 5, "late", priority=1), "delay_s": 0.1},
            {**asked(prompt(22, 1_200), 5, "urgent", priority=9), "delay_s": 0.2},
        ],
    ]
    with sessions() as warpserve:
        yield serve_sglang(
            warpserve,
            tmp_path_factory.mktemp("pressed"),
            LLAMA,
            "--enable-mixed-chunk",
            "--enable-priority-scheduling",
            "--stream-interval=5",
            "--chunked-prefill-size=512",
            "--max-total-tokens=2500",
            "--schedule-conservativeness=0.05",
            bursts=bursts,
        )


@feature(
    "Mixed chunks, priorities, --stream-interval",
    "--enable-mixed-chunk --enable-priority-scheduling --stream-interval 5",
)
def test_mixed_chunks_and_priorities(pressed: Answered) -> None:
    """A chunk of a prompt and the tokens of those that decode share a step; the more urgent of two
    waiting requests comes first; tokens are sent five at a time.
    """
    (steps,) = pressed.steps
    assert [s for s in steps if {row[2] for row in s["requests"]} == {True, False}]
    for answer in pressed.answers[0]:
        assert 400 / 5 <= len(answer["times_ms"]) < 400 / 5 + 10
    _, late, urgent = pressed.answers[1]
    assert urgent["times_ms"][0] + 100 < late["times_ms"][0]


@feature("Retraction", "--schedule-conservativeness 0.05")
def test_retraction(pressed: Answered) -> None:
    """Requests are retracted (sglang:num_retracted_requests_total), compute their outputs again,
    and all end.
    """
    assert total(pressed, "sglang:num_retracted_requests_total") >= 1
    (steps,) = pressed.steps
    rows = [row for n in range(6) for row in of(steps, f"many-{n}")]
    assert [row for row in rows if row[2] and row[0] + row[1] > 400], "prompt and outputs together"


@feature("Tensor parallelism, ghost ranks", "--tp-size 2")
def test_one_scheduler_stands_for_both_ranks(warpserve: Warpserve, tmp_path: Path) -> None:
    """With a process for each rank (--no-ghost-ranks) both take the same steps from the same
    instants to the same instants, as the one does that stands for them; the KV cache has as many
    tokens, more than twice those of one GPU.
    """
    bursts = [[asked(prompt(n, 40 * n + 10), 8, f"r-{n}") for n in range(6)]]
    ghosts, processes = (
        serve_sglang(
            warpserve,
            tmp_path / option,
            LLAMA,
            "--tp-size=2",
            gpu="h100-sxm:2",
            bursts=bursts,
            options=[option],
        )
        for option in ("--ghost-ranks", "--no-ghost-ranks")
    )
    (steps,), (one, two) = ghosts.steps, processes.steps
    assert one == two
    assert [step["requests"] for step in steps] == [step["requests"] for step in one]
    assert ghosts.kv_cache_tokens == processes.kv_cache_tokens > 2 * 400_000
    assert ghosts.answers == processes.answers
    assert all(
        answer["times_ms"][:8] == [STEP_MS * n for n in range(1, 9)] for answer in ghosts.answers[0]
    )


@feature("Pipeline parallelism", "--pp-size 2")
def test_pipeline_parallelism(warpserve: Warpserve, tmp_path: Path) -> None:
    """A token takes a step of each of two stages and NCCL's transfer between them; of a long
    prompt, the second stage computes one chunk while the first computes the next.
    """
    served = serve_sglang(
        warpserve,
        tmp_path,
        LLAMA,
        "--pp-size=2",
        "--chunked-prefill-size=2048",
        gpu="h100-sxm:2",
        bursts=[[asked(prompt(1, 100), 5, "alone")], [asked(prompt(2, 8_000), 1, "long")]],
    )
    (alone,), (long,) = served.answers
    assert 2 * STEP_MS <= alone["times_ms"][0] < 2 * STEP_MS + 2
    assert 5 * STEP_MS < long["times_ms"][0] < 6 * STEP_MS, "four chunks, not twice four steps"
    assert len(served.steps) == 2


@pytest.mark.thorough
def test_each_rank_of_each_stage_logs_all_its_steps(warpserve: Warpserve, tmp_path: Path) -> None:
    served = serve_sglang(
        warpserve,
        tmp_path,
        LLAMA,
        "--pp-size=2",
        "--tp-size=2",
        "--chunked-prefill-size=2048",
        gpu="h100-sxm:4",
        bursts=[[asked(prompt(2, 8_000), 1, "long")]],
    )
    lengths = [len([s for s in steps if "long" in s["request_ids"]]) for steps in served.steps]
    assert lengths == [4] * 4


@pytest.mark.thorough
def test_servers_take_what_is_said_of_each_request(warpserve: Warpserve, tmp_path: Path) -> None:
    """Before it comes to the scheduler; beside the first step, a token has waited for nothing."""
    lengths = (130, 1_000)
    served = serve_sglang(
        warpserve,
        tmp_path,
        LLAMA,
        predictor="analytic:request_host=5ms,prompt_token_host=4us",
        bursts=[[asked(prompt(n, n), 1, f"of {n}")] for n in lengths],
    )
    assert beside_first_steps_ms(served, lengths) == pytest.approx([5.52, 9.0], abs=1e-6)


@feature("Data-parallel replicas", "--dp-size 2")
def test_replicas(warpserve: Warpserve, tmp_path: Path) -> None:
    """The controller hands requests to each of two schedulers in turn, which compute them beside
    each other.
    """
    bursts = [[asked(prompt(n, 100), 8, f"r-{n}") for n in range(6)]]
    served = serve_sglang(
        warpserve, tmp_path, LLAMA, "--dp-size=2", gpu="h100-sxm:2", bursts=bursts
    )
    shares = [
        {name for s in steps for name in s["request_ids"] if name.startswith("r-")}
        for steps in served.steps
    ]
    assert sorted(map(len, shares)) == [3, 3]
    assert all(answer["times_ms"][0] == STEP_MS for answer in served.answers[0])


@feature(
    "Attention in data-parallel ranks, expert parallelism",
    "--tp-size 2 --dp-size 2 --enable-dp-attention --ep-size 2",
)
def test_experts_work_in_lock_step(warpserve: Warpserve, tmp_path: Path) -> None:
    """Two schedulers take each step together, from the same instant to the same instant, the one
    without requests with an idle batch.
    """
    served = serve_sglang(
        warpserve,
        tmp_path,
        "Qwen/Qwen3-30B-A3B",
        "--tp-size=2", "--dp-size=2", "--enable-dp-attention", "--ep-size=2",
        gpu="h100-sxm:2",
        bursts=[
            [asked(prompt(1, 100), 5, "alone")],
            [asked(prompt(n, 60), 8, f"r-{n}") for n in range(3)],
        ],
    )  # fmt: skip
    assert served.answers[0][0]["times_ms"][0] == STEP_MS
    one, two = ([(s["start_ns"], s["end_ns"]) for s in steps] for steps in served.steps)
    assert len(one) > 10
    assert one == two
    assert [step for steps in served.steps for step in steps if not step["request_ids"]]
    # Where no CUDA graph pads both alike, the experts see what tokens there are.
    apart = [pair for pair in zip(*served.steps, strict=True) if "shared_tokens" in pair[0]]
    assert apart
    for pair in apart:
        tokens = sum(new for step in pair for new, _, _ in step["requests"])
        assert [step["shared_tokens"] for step in pair] == [tokens, tokens]


@feature(
    "Expert parallelism by DeepEP",
    "--tp-size 2 --moe-a2a-backend deepep (with --dp-size 2 --enable-dp-attention, too)",
)
@pytest.mark.parametrize("replicas", [1, pytest.param(2, marks=pytest.mark.thorough)])
def test_tokens_are_sent_to_their_experts(
    warpserve: Warpserve, tmp_path: Path, replicas: int
) -> None:
    """SGLang makes its dispatchers and spreads the experts over all ranks, and each step takes what
    the predictor says of tokens that are sent to the ranks of their experts. Launches cost nothing:
    under 0.5.14 they would be longer than either.
    """
    predictor = "analytic:launch_host=0ms"
    attention = ["--dp-size=2", "--enable-dp-attention"] if replicas == 2 else []
    served = serve_sglang(
        warpserve,
        tmp_path,
        "Qwen/Qwen3-30B-A3B",
        "--tp-size=2", "--moe-a2a-backend=deepep", *attention,
        gpu="h100-sxm:2",
        predictor=predictor,
        bursts=[[asked(prompt(1, 2_000), 4, "one")]],
    )  # fmt: skip
    deployment = Deployment(
        config=model_named("qwen3-30b-a3b").config(),
        hardware=hardware_of("h100-sxm:2"),
        engine="sglang",
        engine_version="0.5.23",
        tensor_parallel=2 // replicas,
        data_parallel=replicas,
        expert_parallel=True,
    )
    steps = [s for steps in served.steps for s in steps if s["request_ids"] == ["one"]]
    assert len(steps) >= 4
    sent, gathered = (
        predictor_of(predictor, replace(deployment, expert_dispatch=dispatch))
        for dispatch in ("deepep", None)
    )
    for step in steps:
        ((new, cached, is_prefill),) = step["requests"]
        sampling = Sampling.labelled(step.get("sampling", "greedy"))
        request = RequestStep(new, cached, is_prefill)
        launch = Launch.of(is_eager=step.get("eager", False))
        shared_tokens = step.get("shared_tokens")
        assert (shared_tokens is None) == (replicas == 1 or launch is Launch.GRAPH)
        batch = Batch((request,), step["padded_tokens"], 0, sampling, launch, shared_tokens)
        assert step["duration_ns"] == sent.predict(batch).duration_ns
        assert step["duration_ns"] != gathered.predict(batch).duration_ns


@feature("LoRA", "--enable-lora --lora-paths NAME=PATH")
def test_lora(warpserve: Warpserve, tmp_path: Path) -> None:
    """Requests name the adapter, and the batch counts it; prompts are computed in graphs (from
    0.5.23 on).
    """
    adapter = _adapter(tmp_path / "adapter")
    served = serve_sglang(
        warpserve,
        tmp_path,
        LLAMA,
        "--enable-lora",
        f"--lora-paths=tuned={adapter}",
        "--max-lora-rank=8",
        bursts=[
            [asked(prompt(1, 50), 4, "plain")],
            [{**asked(prompt(2, 50), 4, "tuned", lora_path="tuned"), "delay_s": 1}],
        ],
    )
    (steps,) = served.steps
    loras = {name: step.get("loras", 0) for step in steps for name in step["request_ids"]}
    assert (loras["plain"], loras["tuned"]) == (0, 1)
    prefills = [step for step in steps if step["requests"][0][:1] == [50]]
    graph = (50, True) if IS_OLD else (64, False)
    assert [(step["padded_tokens"], "eager" in step) for step in prefills] == [graph] * 2
    for (answer,) in served.answers:
        first_ms, *_ = times_ms = answer["times_ms"][:4]
        assert 0 <= first_ms - STEP_MS < 1, "and what it takes to copy the adapter to the GPU"
        between_ms = [after - before for before, after in pairwise(times_ms)]
        assert between_ms == pytest.approx([STEP_MS] * 3, abs=1e-6)


def _adapter(folder: Path) -> Path:
    """A LoRA adapter of rank 8 for one projection of each layer."""
    script = """
import json, pathlib, sys, torch
from safetensors.torch import save_file
folder = pathlib.Path(sys.argv[1])
folder.mkdir()
config = {"peft_type": "LORA", "r": 8, "lora_alpha": 16, "target_modules": ["o_proj"],
          "bias": "none", "task_type": "CAUSAL_LM"}
(folder / "adapter_config.json").write_text(json.dumps(config))
tensors = {}
for layer in range(32):
    name = f"base_model.model.model.layers.{layer}.self_attn.o_proj.lora_"
    tensors |= {name + "A.weight": torch.zeros(8, 4096), name + "B.weight": torch.zeros(4096, 8)}
save_file(tensors, folder / "adapter_model.safetensors")
"""
    subprocess.run([sglang_python(), "-c", script, folder], check=True)
    return folder


@feature("Sliding windows beside full attention", "openai/gpt-oss-20b")
def test_sliding_window(warpserve: Warpserve, tmp_path: Path) -> None:
    """SGLang sizes two pools, frees what lies outside of the window, and finds nothing leaked when
    it is idle; a prompt asked again computes a small part of it.
    """
    again = prompt(1, 2_000)
    served = serve_sglang(
        warpserve,
        tmp_path,
        "openai/gpt-oss-20b",
        bursts=[
            [asked(again, 40, "first")],
            [asked(again, 4, "again")],
            [asked(prompt(n, 300), 30, f"r-{n}") for n in range(2, 6)],
        ],
    )
    assert "leak" not in served.log
    (steps,) = served.steps
    assert of(steps, "again")[0][0] < 1_000
    assert all(answer["status"] == 200 for burst in served.answers for answer in burst)


@feature("MLA", "the model's own")
@pytest.mark.thorough
def test_mla(warpserve: Warpserve, tmp_path: Path) -> None:
    """Keys and values of a token take 576 numbers a layer."""
    served = serve_sglang(
        warpserve,
        tmp_path,
        _deepseek(tmp_path / "model"),
        f"--tokenizer-path={LLAMA}",
        bursts=[[asked(prompt(1, 100), 4, "one")]],
    )
    assert served.answers[0][0]["times_ms"][:4] == [STEP_MS * n for n in range(1, 5)]
    assert _kv_bytes(served) / served.kv_cache_tokens == pytest.approx(27 * 576 * 2, rel=0.02)


def _kv_bytes(served: Answered) -> float:
    gb = served.metrics.get("sglang:kv_cache_memory_usage_gb")
    if gb is None:  # 0.5.14 tells it in its log alone
        (said,) = re.findall(r"KV size: (\S+) GB", served.log)
        gb = float(said)
    return gb * 2**30


def _deepseek(folder: Path) -> Path:
    """The configuration of DeepSeek-V2-Lite."""
    config = {
        "architectures": ["DeepseekV2ForCausalLM"],
        "model_type": "deepseek_v2",
        "hidden_size": 2048,
        "intermediate_size": 10944,
        "moe_intermediate_size": 1408,
        "num_hidden_layers": 27,
        "num_attention_heads": 16,
        "num_key_value_heads": 16,
        "n_routed_experts": 64,
        "n_shared_experts": 2,
        "num_experts_per_tok": 6,
        "first_k_dense_replace": 1,
        "moe_layer_freq": 1,
        "norm_topk_prob": False,
        "scoring_func": "softmax",
        "topk_method": "greedy",
        "n_group": 1,
        "topk_group": 1,
        "routed_scaling_factor": 1.0,
        "kv_lora_rank": 512,
        "q_lora_rank": None,
        "qk_nope_head_dim": 128,
        "qk_rope_head_dim": 64,
        "v_head_dim": 128,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-6,
        "rope_theta": 10000,
        "max_position_embeddings": 8192,
        "vocab_size": 102400,
        "tie_word_embeddings": False,
        "attention_bias": False,
        "torch_dtype": "bfloat16",
    }
    return described(folder, config)

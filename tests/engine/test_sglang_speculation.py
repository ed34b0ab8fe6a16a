"""SGLang's speculative decoding: as many drafts are accepted as the user says."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.engine.configurations import EAGLE, EAGLE_3, described
from tests.engine.features import feature
from tests.engine.served import Request, completion, prompt
from tests.engine.sglang_served import IS_OLD, serve_sglang
from tests.harness import Warpserve

LLAMA = "meta-llama/Llama-3.1-8B-Instruct"
REQUESTS, TOKENS = 16, 200
LOGGED_TOKENS = 48
STEPS = 3
RATES = (0.8, 0.6, 0.4)
MULTI_TOKEN: dict[str, Any] = {
    "architectures": ["DeepseekV3ForCausalLM"],
    "model_type": "deepseek_v3",
    "hidden_size": 2048,
    "intermediate_size": 4096,
    "moe_intermediate_size": 512,
    "num_hidden_layers": 4,
    "num_nextn_predict_layers": 1,
    "num_attention_heads": 16,
    "num_key_value_heads": 16,
    "n_routed_experts": 16,
    "n_shared_experts": 1,
    "num_experts_per_tok": 4,
    "n_group": 4,
    "topk_group": 2,
    "first_k_dense_replace": 1,
    "moe_layer_freq": 1,
    "norm_topk_prob": True,
    "scoring_func": "sigmoid",
    "topk_method": "noaux_tc",
    "routed_scaling_factor": 2.5,
    "kv_lora_rank": 512,
    "q_lora_rank": 768,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-6,
    "rope_theta": 10000,
    "max_position_embeddings": 8192,
    "vocab_size": 128256,
    "tie_word_embeddings": False,
    "attention_bias": False,
    "torch_dtype": "bfloat16",
}
"""A small DeepSeek-V3, which brings the layer that drafts along."""


@dataclass(frozen=True)
class Drafter:
    """``branches``: drafts at each depth of which the best ``width`` are verified in a step."""

    algorithm: str
    make: Callable[[Path], tuple[str | Path, list[str]]]
    """The target, and the flags that name the drafter."""
    branches: int = 1
    width: int = STEPS + 1
    flags: list[str] = field(default_factory=list)
    marks: tuple[pytest.MarkDecorator, ...] = ()


def _with_head(config: Mapping[str, Any]) -> Callable[[Path], tuple[str | Path, list[str]]]:
    return lambda folder: (
        LLAMA,
        [f"--speculative-draft-model-path={described(folder / 'head', config)}"],
    )


def _with_itself(folder: Path) -> tuple[str | Path, list[str]]:
    return described(folder / "model", MULTI_TOKEN), [f"--tokenizer-path={LLAMA}"]


DRAFTERS = (
    Drafter("STANDALONE", lambda _: (LLAMA, [f"--speculative-draft-model-path={LLAMA}"])),
    Drafter("EAGLE", _with_head(EAGLE), branches=4, width=16),
    Drafter("EAGLE3", _with_head(EAGLE_3), marks=(pytest.mark.thorough,)),
    Drafter("NEXTN", _with_itself, marks=(pytest.mark.thorough,)),
)


@feature(
    "Speculative decoding: draft model, EAGLE, multi-token prediction",
    "--speculative-algorithm STANDALONE (or EAGLE, EAGLE3, NEXTN), with --acceptance of warpserve",
)
@pytest.mark.parametrize(
    "drafter",
    [pytest.param(drafter, marks=drafter.marks, id=drafter.algorithm) for drafter in DRAFTERS],
)
def test_speculative_decoding(warpserve: Warpserve, tmp_path: Path, drafter: Drafter) -> None:
    """Each step gives as many tokens as the user's rates add up to, and one more
    (sglang:spec_verify_calls and the step log), and computes all that it verifies, a tree of drafts
    too; the drafter is loaded. Drafts obey a grammar, and have log probabilities.
    """
    model, named = drafter.make(tmp_path)
    served = serve_sglang(
        warpserve,
        tmp_path,
        model,
        f"--speculative-algorithm={drafter.algorithm}",
        *named,
        f"--speculative-num-steps={STEPS}",
        f"--speculative-eagle-topk={drafter.branches}",
        f"--speculative-num-draft-tokens={drafter.width}",
        "--mem-fraction-static=0.8",
        bursts=[
            [completion(prompt(n, 100), TOKENS, rid=f"r-{n}") for n in range(REQUESTS)],
            [_generated("bound", regex="(yes|no){12}"), _generated("told", return_logprob=True)],
        ],
        options=[f"--acceptance={','.join(map(str, RATES))}"],
    )
    (steps,) = served.steps
    verified = [
        row
        for step in steps
        for name, row in zip(step["request_ids"], step["requests"], strict=True)
        if name.startswith("r-") and not row[2]
    ]
    assert {row[0] for row in verified} == {drafter.width}
    # A step that was launched before the last result was known is one too many.
    tokens_a_step = REQUESTS * (TOKENS - 1) / (len(verified) - REQUESTS)
    assert tokens_a_step == pytest.approx(1 + sum(RATES), abs=0.15)
    for answer in () if IS_OLD else served.answers[0]:
        assert sum(len(piece or ()) for piece in answer["token_ids"]) == TOKENS
    bound, told = (json.loads(answer["text"]) for answer in served.answers[1])
    assert re.fullmatch("(yes|no){12}", bound["text"])
    given = [token for _, token, _ in told["meta_info"]["output_token_logprobs"]]
    assert given == told["output_ids"]
    assert [len(top) for top in told["meta_info"]["output_top_logprobs"]] == [2] * LOGGED_TOKENS
    for name, answer in (("bound", bound), ("told", told)):
        assert sum(name in step["request_ids"] for step in steps) < len(answer["output_ids"])


def _generated(rid: str, *, regex: str | None = None, return_logprob: bool = False) -> Request:
    """Asked SGLang's own way."""
    sampling: dict[str, Any] = {"max_new_tokens": LOGGED_TOKENS}
    sampling |= {"ignore_eos": True} if regex is None else {"regex": regex}
    body = {"input_ids": prompt(99, 20), "rid": rid, "sampling_params": sampling}
    more = {"return_logprob": True, "top_logprobs_num": 2} if return_logprob else {}
    return {"path": "/generate", "body": body | more}

"""What a worker of vLLM runs, as predictors see it."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from importlib.metadata import version
from typing import Any

from warpserve.predictors.deployment import Deployment, Drafter
from warpserve.predictors.hardware import hardware_of_session

_WEIGHTS = {
    "experts_int8": "int8",
    "fp8_per_block": "fp8_block",
    "fp8_per_channel": "fp8",
    "fp8_per_tensor": "fp8",
    "int8_per_channel_weight_only": "int8",
}
"""What vLLM calls ways to quantise a model while it is loaded; other names are predictors', too."""
_METHODS = {"gpt_oss_mxfp4": "mxfp4"}
"""What vLLM calls a model's own way to be quantised once it has read its description."""
_KV_CACHE = {
    "auto": "bf16",
    "bfloat16": "bf16",
    "float16": "bf16",
    "fp8_ds_mla": "fp8",
    "fp8_e4m3": "fp8",
    "fp8_e5m2": "fp8",
}

_DRAFTERS = ("draft_model", "eagle", "eagle3")
"""Methods of speculative decoding whose drafts come from a decoder of a known form."""
_WITHOUT_FORWARD = ("ngram", "ngram_gpu", "suffix")


def name_of(worker: Any) -> str:
    """Of a worker, by its ranks among replicas and in its own: no other of its engine has it."""
    return f"{worker.parallel_config.data_parallel_index}-{worker.rank}"


def deployment_of(config: Any, pipeline_rank: int) -> Deployment:
    """``config``: a VllmConfig. Raises PredictorError in a session without GPUs."""
    parallel = config.parallel_config
    model = config.model_config
    kv_cache = str(config.cache_config.cache_dtype)
    found = Deployment(
        config=_description(model),
        hardware=hardware_of_session(),
        engine="vllm",
        engine_version=version("vllm").partition("+")[0],
        tensor_parallel=parallel.tensor_parallel_size,
        pipeline_parallel=parallel.pipeline_parallel_size,
        pipeline_rank=pipeline_rank,
        # Replicas of a model without experts know nothing of each other.
        data_parallel=parallel.data_parallel_size if model.is_moe else 1,
        expert_parallel=parallel.enable_expert_parallel,
        weights=_weights(model),
        kv_cache=_KV_CACHE.get(kv_cache, kv_cache),
    )
    return _with_drafter(found, config.speculative_config)


def _with_drafter(target: Deployment, speculative: Any) -> Deployment:
    """``speculative``: a SpeculativeConfig or None."""
    if speculative is None or speculative.method in _WITHOUT_FORWARD:
        return target
    if speculative.method not in _DRAFTERS:
        logging.getLogger("vllm").warning(
            "warpserve: what drafts take with %s is not known, and left out", speculative.method
        )
        return target
    model = speculative.draft_model_config
    config = _description(model)
    # EAGLE's heads may know part of the vocabulary only.
    config["vocab_size"] = config.get("draft_vocab_size") or config["vocab_size"]
    drafts = replace(
        target,
        config=config,
        weights=_weights(model),
        tensor_parallel=speculative.draft_parallel_config.tensor_parallel_size,
        data_parallel=1,
        expert_parallel=False,
    )
    is_parallel = getattr(speculative, "parallel_drafting", False)
    passes = 1 if is_parallel else speculative.num_speculative_tokens
    return replace(target, drafter=Drafter(drafts, passes))


def _weights(model: Any) -> str | None:
    """How they are stored, where not the model's description says it. ``model``: a ModelConfig."""
    if "quantization_config" in _description(model) or not model.quantization:
        return None
    return _WEIGHTS.get(model.quantization, str(model.quantization))


def _description(model: Any) -> dict[str, Any]:
    """The language model's ``config.json``. ``model``: a ModelConfig."""
    text: dict[str, Any] = json.loads(model.hf_text_config.to_json_string(use_diff=False))
    whole: dict[str, Any] = json.loads(model.hf_config.to_json_string(use_diff=False))
    for name in ("architectures", "quantization_config"):
        if not text.get(name) and whole.get(name):
            text[name] = whole[name]
    if quantization := text.get("quantization_config"):
        method = quantization.get("quant_method")
        quantization["quant_method"] = _METHODS.get(method, method)
    return {name: value for name, value in text.items() if value is not None}

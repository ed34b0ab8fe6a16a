"""What a worker of vLLM runs, as predictors see it."""

from __future__ import annotations

import logging
import sys
from dataclasses import replace
from importlib.metadata import version
from typing import Any

from warpserve.patches.model_description import (
    description_of,
    drafter_description,
    layers_by_stage,
    weights_of,
)
from warpserve.predictors.deployment import FP8_ACTIVATIONS, MARLIN, Deployment, Drafter
from warpserve.predictors.hardware import Hardware, hardware_of_session

_WEIGHTS = {
    "fp8_per_block": "fp8_block",
    "fp8_per_channel": "fp8",
    "fp8_per_tensor": "fp8",
    "int8_per_channel_weight_only": "experts_int8",
    "mxfp4": "online_mxfp4",
}
"""What vLLM calls ways to quantise a model while it is loaded; other names are predictors', too.

By mxfp4 vLLM 0.33 means all matrices, and predictors gpt-oss's experts: they refuse the other.
"""
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

_KERNELS_OF_VARIABLES = {
    "VLLM_MXFP4_USE_MARLIN": MARLIN,
    "VLLM_USE_FLASHINFER_MOE_MXFP4_MXFP8": FP8_ACTIVATIONS,
}

_DRAFTERS = ("draft_model", "eagle", "eagle3")
"""Methods of speculative decoding whose drafts come from a decoder of a known form."""
_WITHOUT_FORWARD = ("ngram", "ngram_gpu", "suffix")


def name_of(worker: Any) -> str:
    """Of a worker, by its ranks among replicas and in its own: no other of its engine has it."""
    return f"{worker.parallel_config.data_parallel_index}-{worker.rank}"


def deployment_of(config: Any, pipeline_rank: int) -> Deployment:
    """``config``: a VllmConfig. Raises PredictorError in a session without GPUs."""
    found = deployment_on(hardware_of_session(), config, pipeline_rank)
    with_kernels = replace(found, expert_kernels=_expert_kernels(config))
    return _with_drafter(with_kernels, config.speculative_config)


def deployment_on(hardware: Hardware, config: Any, pipeline_rank: int) -> Deployment:
    """But for the kernels of experts and for drafters. ``config``: a VllmConfig."""
    parallel = config.parallel_config
    model = config.model_config
    kv_cache = str(config.cache_config.cache_dtype)
    description = _description(model)
    return Deployment(
        config=description,
        hardware=hardware,
        engine="vllm",
        engine_version=version("vllm").partition("+")[0],
        tensor_parallel=parallel.tensor_parallel_size,
        pipeline_parallel=parallel.pipeline_parallel_size,
        pipeline_rank=pipeline_rank,
        layers_by_stage=layers_by_stage("VLLM_PP_LAYER_PARTITION"),
        # Replicas of a model without experts know nothing of each other.
        data_parallel=parallel.data_parallel_size if model.is_moe else 1,
        expert_parallel=parallel.enable_expert_parallel,
        weights=weights_of(model, description, _WEIGHTS),
        kv_cache=_KV_CACHE.get(kv_cache, kv_cache),
        lora_rank=None if config.lora_config is None else config.lora_config.max_lora_rank,
    )


def _expert_kernels(config: Any) -> str | None:
    """vLLM 0.19 is asked for them by variables, which 0.24 has no more."""
    backend = getattr(getattr(config, "kernel_config", None), "moe_backend", "auto")
    variables = sys.modules.get("vllm.envs")
    for name, kernels in _KERNELS_OF_VARIABLES.items():
        if backend == kernels or getattr(variables, name, None):
            return kernels
    if backend != "auto":
        logging.getLogger(__name__).warning(
            "warpserve: experts are predicted with vLLM's own choice of kernels, not with those of "
            "--moe-backend %s",
            backend,
        )
    return None


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
    config = drafter_description(_description(model))
    drafts = replace(
        target,
        config=config,
        layers_by_stage=None,
        weights=weights_of(model, config, _WEIGHTS),
        tensor_parallel=speculative.draft_parallel_config.tensor_parallel_size,
        data_parallel=1,
        expert_parallel=False,
    )
    is_parallel = getattr(speculative, "parallel_drafting", False)
    passes = 1 if is_parallel else speculative.num_speculative_tokens
    return replace(target, drafter=Drafter(drafts, passes))


def _description(model: Any) -> dict[str, Any]:
    """``model``: a ModelConfig."""
    description = description_of(model)
    if quantization := description.get("quantization_config"):
        method = quantization.get("quant_method")
        quantization["quant_method"] = _METHODS.get(method, method)
    return description

"""What a worker of SGLang runs, as predictors see it."""

from __future__ import annotations

from dataclasses import replace
from importlib.metadata import version
from typing import Any

import torch

from warpserve.patches.model_description import (
    description_of,
    drafter_description,
    layers_by_stage,
    weights_of,
)
from warpserve.patches.sglang.resolved import parallel_of, settings
from warpserve.predictors.deployment import BF16_ACTIVATIONS, Deployment, Drafter
from warpserve.predictors.hardware import Hardware, hardware_of_session

_KV_CACHE = {
    "auto": "bf16",
    "bfloat16": "bf16",
    "bf16": "bf16",
    "fp8_e4m3": "fp8",
    "fp8_e5m2": "fp8",
}
_LAYERS_BY_STAGE = "SGLANG_PP_LAYER_PARTITION"
_FP8 = (torch.float8_e4m3fn, torch.float8_e5m2)
_WEIGHTS = {"w8a8_fp8": "fp8", "w8a8_int8": "int8"}
"""Ways to quantise a model while it is loaded; SGLang's other names are predictors', too."""


def name_of(worker: Any) -> str:
    """By its ranks: no other of its engine has it. By its part, too, where prefill and decode are
    apart. ``worker``: a TpModelWorker.
    """
    parallel = parallel_of(worker)
    ranks = f"{parallel.dp_rank or 0}-{parallel.pp_rank * parallel.tp_size + parallel.tp_rank}"
    part = settings("disagg", worker.server_args).disaggregation_mode
    return ranks if part == "null" else f"{part}-{ranks}"


def deployment_of(worker: Any) -> Deployment:
    """``worker``: a TpModelWorker. Raises PredictorError in a session without GPUs."""
    found = replace(
        deployment_on(hardware_of_session(), worker),
        expert_dispatch=_expert_dispatch(worker.server_args),
        expert_kernels=_expert_kernels(worker.server_args),
    )
    return _with_drafter(found, worker.server_args)


def deployment_on(hardware: Hardware, worker: Any) -> Deployment:
    """But for the kernels of experts, how tokens come to them, and drafters. ``worker``: a
    TpModelWorker.
    """
    parallel = parallel_of(worker)
    data_parallel = parallel.attn_dp_size if parallel.attn_dp_enabled else 1
    kv_cache = str(settings("model", worker.server_args).kv_cache_dtype)
    description = description_of(worker.model_config)
    return Deployment(
        config=description,
        hardware=hardware,
        engine="sglang",
        engine_version=version("sglang").partition("+")[0],
        # With attention in data-parallel ranks, tp_size counts all of them.
        tensor_parallel=parallel.tp_size // data_parallel,
        pipeline_parallel=parallel.pp_size,
        pipeline_rank=parallel.pp_rank,
        # SGLang 0.5.23 does not look at it where there is one stage.
        layers_by_stage=layers_by_stage(_LAYERS_BY_STAGE) if parallel.pp_size > 1 else None,
        data_parallel=data_parallel,
        expert_parallel=parallel.ep_size > 1,
        weights=weights_of(worker.model_config, description, _WEIGHTS),
        kv_cache=_KV_CACHE.get(kv_cache, kv_cache),
    )


def _expert_dispatch(arguments: Any) -> str | None:
    """``arguments``: ServerArgs."""
    backend = str(arguments.moe_a2a_backend)
    return None if backend == "none" else backend


def _expert_kernels(arguments: Any) -> str | None:
    """``arguments``: ServerArgs."""
    precision = getattr(arguments, "flashinfer_mxfp4_moe_precision", "default")
    return BF16_ACTIVATIONS if precision == "bf16" else None


def as_loaded(deployment: Deployment, worker: Any) -> Deployment:
    """Once the worker has its model: it then knows the largest rank of its adapters, and whether
    the checkpoint has its keys and values in FP8.
    """
    runner = worker.model_runner
    manager = getattr(runner, "lora_manager", None)
    return replace(
        deployment,
        lora_rank=deployment.lora_rank if manager is None else manager.max_lora_rank,
        kv_cache="fp8" if runner.kv_cache_dtype in _FP8 else deployment.kv_cache,
    )


def _with_drafter(target: Deployment, arguments: Any) -> Deployment:
    """``arguments``: ServerArgs."""
    from sglang.srt.configs.model_config import ModelConfig

    speculative = settings("spec", arguments)
    if speculative.speculative_algorithm is None:
        return target
    model = ModelConfig.from_server_args(
        arguments,
        model_path=speculative.speculative_draft_model_path,
        model_revision=speculative.speculative_draft_model_revision,
        is_draft_model=True,
    )
    config = drafter_description(description_of(model))
    drafts = replace(
        target,
        config=config,
        layers_by_stage=None,
        weights=weights_of(model, config, _WEIGHTS),
    )
    return replace(target, drafter=Drafter(drafts, speculative.speculative_num_steps))

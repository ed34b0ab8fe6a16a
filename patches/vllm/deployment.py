"""What a worker of vLLM runs, as predictors see it."""

from __future__ import annotations

import json
from importlib.metadata import version
from typing import Any

from warpserve.predictors.deployment import Deployment
from warpserve.predictors.hardware import hardware_of_session

_WEIGHTS = {
    "experts_int8": "int8",
    "fp8_per_block": "fp8_block",
    "fp8_per_channel": "fp8",
    "fp8_per_tensor": "fp8",
    "int8_per_channel_weight_only": "int8",
}
"""What vLLM calls ways to quantise a model while it is loaded; other names are predictors', too."""
_KV_CACHE = {
    "auto": "bf16",
    "bfloat16": "bf16",
    "float16": "bf16",
    "fp8_ds_mla": "fp8",
    "fp8_e4m3": "fp8",
    "fp8_e5m2": "fp8",
}


def deployment_of(config: Any, pipeline_rank: int) -> Deployment:
    """``config``: a VllmConfig. Raises PredictorError in a session without GPUs."""
    parallel = config.parallel_config
    model = config.model_config
    kv_cache = str(config.cache_config.cache_dtype)
    description = _description(model)
    is_quantised_while_loaded = "quantization_config" not in description and model.quantization
    return Deployment(
        config=description,
        hardware=hardware_of_session(),
        engine="vllm",
        engine_version=version("vllm").partition("+")[0],
        tensor_parallel=parallel.tensor_parallel_size,
        pipeline_parallel=parallel.pipeline_parallel_size,
        pipeline_rank=pipeline_rank,
        # Replicas of a model without experts know nothing of each other.
        data_parallel=parallel.data_parallel_size if model.is_moe else 1,
        expert_parallel=parallel.enable_expert_parallel,
        weights=(
            _WEIGHTS.get(model.quantization, model.quantization)
            if is_quantised_while_loaded
            else None
        ),
        kv_cache=_KV_CACHE.get(kv_cache, kv_cache),
    )


def _description(model: Any) -> dict[str, Any]:
    """The language model's ``config.json``. ``model``: a ModelConfig."""
    text: dict[str, Any] = json.loads(model.hf_text_config.to_json_string(use_diff=False))
    whole: dict[str, Any] = json.loads(model.hf_config.to_json_string(use_diff=False))
    for name in ("architectures", "quantization_config"):
        if not text.get(name) and whole.get(name):
            text[name] = whole[name]
    return {name: value for name, value in text.items() if value is not None}

"""How aiconfigurator-core is asked about a deployment: its names for layouts and for numbers."""

from __future__ import annotations

from typing import Any

from warpserve.predictors.aiconfigurator.triton_fp8 import takes_triton
from warpserve.predictors.deployment import Deployment
from warpserve.predictors.model_shape import LatentAttention, model_shape
from warpserve.predictors.mxfp8 import multiplies_in_fp8
from warpserve.predictors.predictor import PredictorError
from warpserve.predictors.weights import FORMATS, WeightFormat

_GEMM_MODES = {
    "bf16": "bfloat16",
    "fp8": "fp8",
    "fp8_block": "fp8_block",
    "int8": "sq",
    "int8_wo": "int8_wo",
    "int4": "int4_wo",
    "nvfp4": "nvfp4",
}
_MOE_MODES = {
    "bf16": "bfloat16",
    "fp8": "fp8",
    "fp8_block": "fp8_block",
    "int4": "int4_wo",
    "mxfp4": "w4a16_mxfp4",
    "nvfp4": "nvfp4",
}
_UNREAD_METHODS = ("fbgemm_fp8",)
"""Of quantising weights: ones that the package does not know, and that weights_of does."""
_UNREAD_FORMATS = ("fp8_wo", "int8", "int8_wo", "nvfp4_wo")
"""The package does not look at whether activations are quantised, too."""
_ATTENTION_MODE = "bfloat16"
_KV_MODES = {2: "bfloat16", 1: "fp8"}
_MXFP4_IN_FP8 = "w4a8_mxfp4_mxfp8"
_SCALES_OF_WEIGHTS = 0.1
"""What one way to count the bytes of a weight may differ from another: by the blocks' scales."""


def layout(deployment: Deployment) -> dict[str, Any]:
    """Over which ranks what is spread."""
    return {
        "tp_size": deployment.tensor_parallel,
        "pp_size": 1,
        "attention_dp_size": deployment.data_parallel,
        "moe_tp_size": deployment.expert_ways // deployment.whole_expert_ways,
        "moe_ep_size": deployment.whole_expert_ways,
    }


def _package_reads_weights(deployment: Deployment) -> bool:
    """How weights are stored; else it is told."""
    quantization = deployment.config.get("quantization_config") or {}
    is_read = quantization.get("quant_method") not in _UNREAD_METHODS
    is_read &= deployment.model_weights.experts.name not in _UNREAD_FORMATS
    return is_read and deployment.weights is None


def config_of(deployment: Deployment) -> dict[str, Any]:
    """What the package is given to read."""
    config = dict(deployment.config)
    if not _package_reads_weights(deployment):
        config.pop("quantization_config", None)
    return config


def modes(deployment: Deployment) -> dict[str, str]:
    """How numbers are stored and multiplied."""
    found = {"kvcache_quant_mode": _KV_MODES[deployment.kv_cache_bytes]}
    experts = _asked_experts(deployment)
    if experts != deployment.model_weights.experts:
        found["moe_quant_mode"] = _MOE_MODES[experts.name]
    if deployment.engine == "sglang" and multiplies_in_fp8(deployment):
        found["moe_quant_mode"] = _MXFP4_IN_FP8
    is_latent = isinstance(model_shape(deployment.config).attention, LatentAttention)
    if deployment.kv_cache_bytes > 1 or is_latent:
        # Of weights in fp8 the package concludes that attention is computed so, too.
        found["fmha_quant_mode"] = _ATTENTION_MODE
    if _package_reads_weights(deployment):
        return found
    found["gemm_quant_mode"] = _GEMM_MODES.get(deployment.model_weights.dense.name, "bfloat16")
    found["moe_quant_mode"] = _MOE_MODES.get(experts.name, "bfloat16")
    return found


def _asked_experts(deployment: Deployment) -> WeightFormat:
    """How those experts are stored that the package is asked about."""
    own = deployment.model_weights.experts
    return FORMATS["bf16"] if takes_triton(deployment) else own


def check_same_weights(deployment: Deployment, understood: Any) -> None:
    """``understood``: the package's ModelConfig, which it may have completed with its defaults.

    Raises PredictorError where weights would be others than the deployment's.
    """
    ours = deployment.model_weights
    pairs = [("weights", ours.dense, understood.gemm_quant_mode)]
    if understood.moe_ep_size is not None and model_shape(deployment.config).experts is not None:
        pairs.append(("experts", _asked_experts(deployment), understood.moe_quant_mode))
    for name, stored, mode in pairs:
        if abs(mode.value.memory / stored.bytes_per_weight - 1) > _SCALES_OF_WEIGHTS:
            raise PredictorError(
                f"aiconfigurator has no tables of {name} in {stored.name}, and would take "
                f"{mode.name}. Use analytic"
            )

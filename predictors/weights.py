"""How a model's weights are stored and multiplied, from its ``quantization_config``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from warpserve.predictors.predictor import PredictorError


class WeightFormat(NamedTuple):
    name: str
    bytes_per_weight: float
    """With the scales of its blocks."""
    multiplied_as: str
    """A key of Hardware.flops, where the GPU has it; else bf16."""


_ALL = (
    WeightFormat("bf16", 2, "bf16"),
    WeightFormat("fp8", 1, "fp8"),
    WeightFormat("fp8_block", 1, "fp8"),
    WeightFormat("int8", 1, "int8"),
    WeightFormat("int4", 0.5 + 2 / 128, "bf16"),  # a 16-bit scale for each group of 128
    WeightFormat("mxfp4", 0.5 + 1 / 32, "bf16"),  # an 8-bit scale for each block of 32
    WeightFormat("nvfp4", 0.5 + 1 / 16, "fp4"),  # an 8-bit scale for each block of 16
)
FORMATS = {each.name: each for each in _ALL}


class ModelWeights(NamedTuple):
    dense: WeightFormat
    """Of attention and dense MLPs; embeddings and the last layer stay in bf16."""
    experts: WeightFormat


def weights_of(config: Mapping[str, Any], asked: str | None = None) -> ModelWeights:
    """``asked``: a name of FORMATS to use instead of what ``config`` says.

    Raises PredictorError for a format or a method that is not known, with the choices.
    """
    name = asked or _name_in(config.get("quantization_config") or {})
    if name not in FORMATS:
        raise PredictorError(f"no weights of {name!r}; there are: {', '.join(FORMATS)}")
    weights = FORMATS[name]
    # Nobody quantises attention to mxfp4: gpt-oss's experts are, and nothing else.
    return ModelWeights(FORMATS["bf16"] if name == "mxfp4" else weights, weights)


def has_stored_scales(config: Mapping[str, Any]) -> bool:
    """Whether what activations in fp8 are scaled by comes with the weights, one number a matrix.

    Else an engine finds it in each step. ``config``: a model's, with weights in fp8.
    """
    quantization = config.get("quantization_config") or {}
    method = str(quantization.get("quant_method", "")).lower()
    if method == "compressed-tensors":
        groups = (quantization.get("config_groups") or {}).values()
        inputs = [group.get("input_activations") or {} for group in groups]
        return any(each.get("strategy") == "tensor" and not each.get("dynamic") for each in inputs)
    return method == "modelopt" or quantization.get("activation_scheme") == "static"


def _name_in(quantization: Mapping[str, Any]) -> str:
    method = str(quantization.get("quant_method", "")).lower()
    if not quantization:
        return "bf16"
    if method == "compressed-tensors":
        return _of_compressed_tensors(quantization)
    if method in ("modelopt", "modelopt_fp4"):
        algorithm = quantization.get("quant_algo") or quantization["quantization"]["quant_algo"]
        return str(algorithm).lower()
    if method in ("awq", "gptq"):
        return f"int{quantization.get('bits', 4)}"
    if method in ("fp8", "fbgemm_fp8"):
        return "fp8_block" if quantization.get("weight_block_size") else "fp8"
    if method == "mxfp4":
        return "mxfp4"
    raise PredictorError(
        f"quantization_config: no quant_method {method!r} is known; name what it comes to: "
        f"{', '.join(FORMATS)}"
    )


def _of_compressed_tensors(quantization: Mapping[str, Any]) -> str:
    groups = quantization.get("config_groups") or {}
    found = {
        (group["weights"]["type"], group["weights"]["num_bits"]): group["weights"]
        for group in groups.values()
        if group.get("weights")
    }
    if len(found) != 1:
        raise PredictorError(
            f"quantization_config: config_groups store weights in {len(found)} ways, "
            f"and one is understood; name what it comes to: {', '.join(FORMATS)}"
        )
    (kind, bits), weights = found.popitem()
    if (kind, bits) == ("float", 8):
        return "fp8_block" if weights.get("block_structure") else "fp8"
    return "nvfp4" if (kind, bits) == ("float", 4) else f"int{bits}"

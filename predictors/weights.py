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
    WeightFormat("fp8_wo", 1, "bf16"),
    WeightFormat("int8", 1, "int8"),
    WeightFormat("int8_wo", 1, "bf16"),
    WeightFormat("int4", 0.5 + 2 / 128, "bf16"),  # a 16-bit scale for each group of 128
    WeightFormat("mxfp4", 0.5 + 1 / 32, "bf16"),  # an 8-bit scale for each block of 32
    WeightFormat("nvfp4", 0.5 + 1 / 16, "fp4"),  # an 8-bit scale for each block of 16
    WeightFormat("nvfp4_wo", 0.5 + 1 / 16, "bf16"),
)
"""``_wo``: of weights only; activations are in bf16, and so is what is multiplied."""
FORMATS = {each.name: each for each in _ALL}
_OF_EXPERTS = {"experts_int8": "int8_wo", "mxfp4": "mxfp4"}
"""Of names, those that leave all but the experts in bf16; and the format of these."""
_CHOICES = ", ".join(sorted({*FORMATS, *_OF_EXPERTS}))


class ModelWeights(NamedTuple):
    dense: WeightFormat
    """Of attention and dense MLPs; embeddings and the last layer stay in bf16."""
    experts: WeightFormat


def weights_of(config: Mapping[str, Any], asked: str | None = None) -> ModelWeights:
    """``asked``: ``experts_int8`` or a name of FORMATS, to use instead of what ``config`` says.

    Raises PredictorError for a format or a method that is not known, with the choices.
    """
    name = asked or _name_in(config.get("quantization_config") or {})
    experts = FORMATS.get(_OF_EXPERTS.get(name, name))
    if experts is None:
        raise PredictorError(f"no weights of {name!r}; there are: {_CHOICES}")
    return ModelWeights(FORMATS["bf16"] if name in _OF_EXPERTS else experts, experts)


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
        bits = quantization.get("bits", 4)
        return "int8_wo" if bits == 8 else f"int{bits}"
    if method in ("fp8", "fbgemm_fp8"):
        return "fp8_block" if quantization.get("weight_block_size") else "fp8"
    if method == "mxfp4":
        return "mxfp4"
    raise PredictorError(
        f"quantization_config: no quant_method {method!r} is known; name what it comes to: "
        f"{_CHOICES}"
    )


def _of_compressed_tensors(quantization: Mapping[str, Any]) -> str:
    groups = quantization.get("config_groups") or {}
    found = {
        (group["weights"]["type"], group["weights"]["num_bits"], _is_weight_only(group)): group[
            "weights"
        ]
        for group in groups.values()
        if group.get("weights")
    }
    if len(found) != 1:
        raise PredictorError(
            f"quantization_config: config_groups store weights in {len(found)} ways, "
            f"and one is understood; name what it comes to: {_CHOICES}"
        )
    (kind, bits, is_weight_only), weights = found.popitem()
    name = f"int{bits}" if kind == "int" else "nvfp4" if bits == 4 else f"fp{bits}"
    if is_weight_only and f"{name}_wo" in FORMATS:
        return f"{name}_wo"
    return "fp8_block" if name == "fp8" and weights.get("block_structure") else name


def _is_weight_only(group: Mapping[str, Any]) -> bool:
    return not group.get("input_activations")

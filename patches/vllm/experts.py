"""Experts' weights that vLLM lays out for their kernels one by one as it loads a model: hundreds of
thousands of calls for weights without contents.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from warpserve.patches.versions import require_attributes

_FOR_MARLIN = "prepare_moe_mxfp4_layer_for_marlin"
_FOR_TRT_LLM = (
    "_shuffle_deepseek_fp8_moe_weights",
    "convert_moe_weights_to_flashinfer_trtllm_block_layout",
)


def lay_out_one_for_marlin(module: ModuleType) -> None:
    """``module``: vllm.model_executor.layers.quantization.utils.marlin_utils_fp4.

    Raises RuntimeError where it lacks a symbol.
    """
    require_attributes(module, (_FOR_MARLIN,))
    _lay_out_the_first(module, _FOR_MARLIN)


def lay_out_one_for_trt_llm(module: ModuleType) -> None:
    """``module``: vllm.model_executor.layers.quantization.utils.flashinfer_utils.

    What another version names otherwise is laid out in full: it only takes longer.
    """
    for name in _FOR_TRT_LLM:
        if hasattr(module, name):
            _lay_out_the_first(module, name)


def _lay_out_the_first(module: ModuleType, name: str) -> None:
    """Of all experts, which are then as large as the first one once it is laid out.

    ``name``: of a function that is given tensors, [experts, …] each, or None for one, among other
    things, and returns others.
    """
    lay_out = getattr(module, name)

    def of_the_first(*given: Any, **options: Any) -> tuple[Any, ...]:
        experts = next(len(each) for each in given if _is_tensor(each))
        one_each = [each[:1] if _is_tensor(each) else each for each in given]
        return tuple(
            each.new_empty((experts, *each.shape[1:])) if _is_tensor(each) else each
            for each in lay_out(*one_each, **options)
        )

    setattr(module, name, of_the_first)


def _is_tensor(given: object) -> bool:
    return hasattr(given, "new_empty")

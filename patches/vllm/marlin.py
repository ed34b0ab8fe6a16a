"""Experts for Marlin's kernels: laid out one by one on load, which is hundreds of thousands of
calls for weights without contents.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from warpserve.patches.versions import require_attributes

_LAY_OUT = "prepare_moe_mxfp4_layer_for_marlin"


def lay_out_one_expert(module: ModuleType) -> None:
    """All experts as large as the first one once it is laid out.

    ``module``: vllm.model_executor.layers.quantization.utils.marlin_utils_fp4. Raises RuntimeError
    where it lacks a symbol.
    """
    require_attributes(module, (_LAY_OUT,))
    lay_out = getattr(module, _LAY_OUT)

    def of_the_first(layer: Any, *tensors: Any) -> tuple[Any, ...]:
        """``tensors`` and what comes back: [experts, …] each, or None."""
        one_each = [None if tensor is None else tensor[:1] for tensor in tensors]
        experts = len(tensors[0])
        return tuple(
            None if tensor is None else tensor.new_empty((experts, *tensor.shape[1:]))
            for tensor in lay_out(layer, *one_each)
        )

    setattr(module, _LAY_OUT, of_the_first)

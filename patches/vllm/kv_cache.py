"""KV caches of linear-attention layers.

Before 0.33, vLLM makes a tensor of their size on the host to ask for its strides: tens of GB, which
hosts of such GPUs have. Since then it computes them (`allocate_kv_cache`).
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from warpserve.patches.versions import require_attributes


def reshape_without_memory(module: ModuleType) -> None:
    """``module``: vllm.v1.worker.gpu_model_runner, or gpu.attn_utils of the second model runner.

    Raises RuntimeError where it lacks a symbol.
    """
    if hasattr(module, "allocate_kv_cache"):
        return
    runner_class = getattr(module, "GPUModelRunner", None)
    owner: Any = module if runner_class is None else runner_class
    name = "_reshape_kv_cache" if runner_class is None else "_reshape_kv_cache_tensors"
    require_attributes(owner, (name,))
    setattr(owner, name, _without_memory(getattr(owner, name)))


def _without_memory(reshape: Callable[..., Any]) -> Callable[..., Any]:
    def with_meta_tensors(*arguments: Any, **options: Any) -> Any:
        import torch

        with torch.device("meta"):
            return reshape(*arguments, **options)

    return with_meta_tensors

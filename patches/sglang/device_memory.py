"""GPU memory that NCCL takes for its connections, and that SGLang's KV cache goes without.

SGLang looks how much is free when its groups are there, and again when weights are loaded. Real
servers have logged what groups took ("Init torch distributed ends. mem usage"):

| GPUs | taken, each | where |
|---|---|---|
| 16 H100 | 1.25 GB | a log of 2025-09 |
| 8 of Hopper with 141 GB | 1.8 to 2.0 GB | github.com/sgl-project/sglang/pull/11716 |
| 8 B200 | 2.4 to 2.5 GB | github.com/sgl-project/sglang/pull/5390 |
| 4 RTX PRO 6000, without NVLink | 0.39 GB | github.com/sgl-project/sglang/issues/40558 |
| 1 | 0.00 GB | all |

Others are taken to be like the nearest.
"""

from __future__ import annotations

from functools import wraps
from types import ModuleType
from typing import Any

from warpserve.patches.versions import require_attributes
from warpserve.patches.virtual_gpu import take_memory
from warpserve.predictors.hardware import hardware_of_session

_GIB = 1 << 30
_OVER_PCIE_BYTES = int(0.39 * _GIB)
_OF_HOPPER_BYTES = int(1.25 * _GIB)
_OF_LARGER_HOPPER_BYTES = int(2.0 * _GIB)
_OF_OTHERS_BYTES = int(2.5 * _GIB)
_LARGER_BYTES = 100 * _GIB
_HOPPER = "9."


def take_memory_of_connections(module: ModuleType) -> None:
    """``module``: sglang.srt.distributed.parallel_state.

    Raises RuntimeError where it lacks a symbol.
    """
    require_attributes(module, ("initialize_model_parallel", "get_world_group"))
    initialize = module.initialize_model_parallel

    @wraps(initialize)
    def initialize_model_parallel(*arguments: Any, **options: Any) -> None:
        initialize(*arguments, **options)
        ranks = module.get_world_group().world_size
        if ranks > 1:
            take_memory(_connections_bytes(ranks))

    vars(module)["initialize_model_parallel"] = initialize_model_parallel


def _connections_bytes(ranks: int) -> int:
    import torch

    hardware = hardware_of_session()
    if not hardware.are_joined_by_nvlink(ranks):
        return _OVER_PCIE_BYTES
    if not hardware.compute_capability.startswith(_HOPPER):
        return _OF_OTHERS_BYTES
    _, total_bytes = torch.cuda.mem_get_info()
    return _OF_LARGER_HOPPER_BYTES if total_bytes > _LARGER_BYTES else _OF_HOPPER_BYTES

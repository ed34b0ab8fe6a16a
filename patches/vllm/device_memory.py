"""GPU memory that neither a model's tensors nor torch take, and that vLLM's KV cache goes without.

vLLM sizes its KV cache by the memory that is left after a first run: kernels' code and NCCL's
connections are gone by then. From 0.21 on it also captures a few CUDA graphs, to leave room for
all. No kernel runs here, and graphs are of uncompiled models, so this memory is taken instead.

The sizes are those that real servers have logged with ``VLLM_LOGGING_LEVEL=DEBUG`` ("non-torch
forward increase memory", "first-capture + (N-1) x per-graph"): vLLM 0.19.0 on H100s,
https://github.com/llm-d-incubation/llm-d-planner/tree/3fdf824d77a595cb2b83eb0d95e56e3fef54e400/accuracy
(Llama-3.1-8B on one, two and four; Llama-3.3-70B on two; others within 0.03 GiB of them), and
vLLM 0.10.2 on A100, L40S and RTX 4090 (docs/results/kv-capacity.md). Other GPUs and versions are
assumed to be like the nearest of these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from warpserve.patches.versions import require_attributes
from warpserve.patches.virtual_gpu import free_memory, take_memory
from warpserve.patches.vllm.measured_graphs import manager_class_of, only_the_largest

_MIB = 1 << 20
_GIB = 1 << 30

_HOPPER = 9
_CODE_BYTES = int(0.13 * _GIB)
_CODE_BEFORE_HOPPER_BYTES = int(0.02 * _GIB)
_PROFILED_GRAPHS_BYTES = int(0.12 * _GIB)
"""What stays taken when the graphs that were captured to be measured are gone."""
_CONNECTIONS_BYTES = int(1.82 * _GIB)
"""Of the NCCL communicators of a tensor-parallel group, on GPUs with NVLink."""
_GRAPH_LAYER_BYTES = _MIB * 3 // 16
"""Of a layer in a graph: 6 MiB of a model of 32 layers, 12 to 20 MiB of one of 80."""
_GRANULE_BYTES = 2 * _MIB


def take_memory_of_kernels(runner: Any, config: Any) -> None:
    """``runner``: a model runner of either kind, before its first run; ``config``: a VllmConfig.

    Raises RuntimeError where the runner lacks a method that is counted on.
    """
    require_attributes(runner, ("profile_run", "profile_cudagraph_memory", "get_model"))
    profile_run, profile_graphs = runner.profile_run, runner.profile_cudagraph_memory

    def profile_run_with_kernels(*arguments: Any, **options: Any) -> Any:
        profiled = profile_run(*arguments, **options)
        take_memory(_code_bytes() + _connections_bytes(config))
        return profiled

    def profile_graphs_with_kernels() -> int:
        with _captures_take(graph_bytes(config), runner.get_model(), manager_class_of(runner)):
            estimate_bytes = int(profile_graphs())
        if estimate_bytes > 0:
            take_memory(_PROFILED_GRAPHS_BYTES)
        return estimate_bytes

    runner.profile_run = profile_run_with_kernels
    runner.profile_cudagraph_memory = profile_graphs_with_kernels


def graph_bytes(config: Any) -> int:
    """Of one batch size, captured whole or in pieces. ``config``: a VllmConfig."""
    layers = int(config.model_config.get_num_layers(config.parallel_config))
    return -(-layers * _GRAPH_LAYER_BYTES // _GRANULE_BYTES) * _GRANULE_BYTES


def _code_bytes() -> int:
    import torch

    major, _ = torch.cuda.get_device_capability()
    return _CODE_BYTES if major >= _HOPPER else _CODE_BEFORE_HOPPER_BYTES


def _connections_bytes(config: Any) -> int:
    from vllm.platforms import current_platform

    ranks = config.parallel_config.tensor_parallel_size
    is_connected = ranks > 1 and current_platform.is_fully_connected(list(range(ranks)))
    return _CONNECTIONS_BYTES if is_connected else 0


@contextmanager
def _captures_take(bytes_each: int, model: Any, manager_class: Any) -> Iterator[None]:
    """While it lasts, each batch size that is captured takes memory; afterwards that is free.

    ``manager_class``: vLLM's CudaGraphManager, or None.
    """
    import torch
    from vllm.config import CUDAGraphMode
    from vllm.forward_context import get_forward_context

    taken: list[int] = []

    def after_capture(*_: Any) -> None:
        taken.append(take_memory(bytes_each))

    def after_forward(*_: Any) -> None:
        """Of the model, whose pieces are captured by nobody, as it is not compiled."""
        if get_forward_context().cudagraph_runtime_mode == CUDAGraphMode.PIECEWISE:
            after_capture()

    whole = torch.cuda.graph
    end_capture = whole.__exit__
    whole.__exit__ = _followed_by(end_capture, after_capture)
    hook = model.register_forward_hook(after_forward)

    def uncaptured(batch_sizes: int) -> None:
        taken.append(take_memory(batch_sizes * bytes_each))

    try:
        with only_the_largest(manager_class, CUDAGraphMode.PIECEWISE, uncaptured):
            yield
    finally:
        hook.remove()
        whole.__exit__ = end_capture
        for address in taken:
            free_memory(address)


def _followed_by(method: Callable[..., Any], then: Callable[[], None]) -> Callable[..., Any]:
    def both(*arguments: Any) -> Any:
        result = method(*arguments)
        then()
        return result

    return both

"""A warm-up of vLLM's worker in which no kernel is tuned, captured or tried."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from types import ModuleType
from typing import Any

from warpserve.patches.versions import require_attributes

_MODULE_LEVEL = ("kernel_warmup", "warmup_kernels")  # the second with the second model runner
_OF_RUNNER = ("_dummy_sampler_run", "_dummy_pooler_run")


@contextmanager
def without_kernels(module: ModuleType, runner: Any) -> Iterator[None]:
    """``module``: vllm.v1.worker.gpu_worker; ``runner``: its model runner, of either kind."""
    of_module = [name for name in _MODULE_LEVEL if hasattr(module, name)]
    originals = {name: getattr(module, name) for name in of_module}
    stand_ins = dict.fromkeys(_OF_RUNNER, _nothing) | {
        "_dummy_run": _no_outputs,
        "capture_model": partial(_captured, runner),
    }
    require_attributes(runner, stand_ins)
    for name in of_module:
        setattr(module, name, _nothing)
    for name, stand_in in stand_ins.items():
        setattr(runner, name, stand_in)
    try:
        yield
    finally:
        for name, original in originals.items():
            setattr(module, name, original)
        for name in stand_ins:
            delattr(runner, name)  # its class has it


def _nothing(*_arguments: Any, **_options: Any) -> None:
    pass


def _no_outputs(*_arguments: Any, **_options: Any) -> tuple[None, None]:
    return None, None


def _captured(runner: Any) -> int:
    """Batches are padded to the sizes of CUDA graphs only once these count as captured."""
    graphs = getattr(runner, "cudagraph_manager", None)
    if graphs is not None:
        graphs._graphs_captured = True
    return 0

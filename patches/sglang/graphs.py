"""Start-up without what only prepares kernels: builds, warm-ups, captured CUDA graphs.

Which sizes are captured stays known, as batches are padded to them.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from warpserve.patches.versions import require_attributes


def build_nothing(module: ModuleType) -> None:
    """``module``: sglang.kernels.jit.utils.compile.loader, or sglang.jit_kernel.utils."""
    from warpserve_autoload.builds import VirtualModule

    require_attributes(module, ("load_jit",))
    vars(module)["load_jit"] = lambda *names, **_: VirtualModule("_".join(map(str, names)))


def warm_up_nothing(module: ModuleType) -> None:
    """``module``: sglang.srt.model_executor.runner.base_runner."""
    require_attributes(module, ("BaseRunner",))
    require_attributes(module.BaseRunner, ("warmup",))
    module.BaseRunner.warmup = _nothing


def compile_nothing(module: ModuleType) -> None:
    """``module``: sglang.srt.model_executor.runner_backend.tc_piecewise_cuda_graph_backend."""
    require_attributes(module, ("TcPiecewiseCudaGraphBackend",))
    backend_class = module.TcPiecewiseCudaGraphBackend
    require_attributes(backend_class, ("_run_compile_pass",))
    backend_class._run_compile_pass = _nothing


def capture_nothing(runner: str) -> Callable[[ModuleType], None]:
    """For the module of a class of graph runners."""

    def patch(module: ModuleType) -> None:
        require_attributes(module, (runner,))
        runner_class = getattr(module, runner)
        require_attributes(runner_class, ("capture",))
        runner_class.capture = _nothing

    return patch


def _nothing(*_arguments: Any, **_options: Any) -> None:
    pass

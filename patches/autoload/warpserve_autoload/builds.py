"""Just-in-time builds of kernels that would never run: they do not start.

- FlashInfer compiles modules with nvcc: without a compiled one at hand, a module of any name has
  kernels of any name.
- CUTLASS's DSL compiles Python to machine code: what it gives does nothing.
- DeepGEMM compiles with nvcc or NVRTC: the launcher makes it use NVRTC, whose virtual one is asked
  for an image only (``cuda_shim/nvrtc``).
"""

from __future__ import annotations

import os
from pathlib import Path
from types import ModuleType
from typing import Any

from warpserve.patches.imported import after_import
from warpserve_autoload.virtual_kernels import launch_on_current_stream, replace


def load() -> None:
    """Patches what builds, when it is imported."""
    after_import("flashinfer.jit.core", patch_flashinfer)
    after_import("flashinfer.jit.cubin_loader", patch_cubin_loader)
    after_import("cutlass.cute", patch_cute)
    if "TORCHDYNAMO_DISABLE" not in os.environ:
        after_import("torch._dynamo.config", patch_dynamo)


class VirtualModule:
    """A compiled module: its functions take their place in torch's current stream.

    They return None. What they would write is left as it was. ``init`` returns an object, with
    functions of its own: FlashInfer's experts. None needs a workspace.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, function: str) -> Any:
        if function.startswith("__"):
            raise AttributeError(function)
        if function == "init":
            return lambda *_, **__: self
        if function == "get_workspace_size":
            return lambda *_, **__: 0
        name = f"{self._name}.{function}"
        return lambda *_, **__: launch_on_current_stream(name)


def patch_flashinfer(core: ModuleType) -> None:
    """For ``flashinfer.jit.core``. Modules that were compiled ahead are the real ones."""

    def build_and_load(spec: Any) -> Any:
        return spec.load(spec.aot_path) if spec.is_aot else VirtualModule(spec.name)

    replace(core, "JitSpec.build_and_load", build_and_load)
    replace(core, "JitSpec.build", lambda *_, **__: None)


def patch_cubin_loader(loader: ModuleType) -> None:
    """For ``flashinfer.jit.cubin_loader``. A module that was not compiled asks for no cubins."""
    setup = loader.setup_cubin_loader

    def setup_of_compiled(library: str) -> None:
        if Path(library).exists():
            setup(library)

    replace(loader, "setup_cubin_loader", setup_of_compiled)


class VirtualCuteCompiler:
    """``cute.compile``, also as ``cute.compile[options]``."""

    def __getitem__(self, _options: object) -> VirtualCuteCompiler:
        return self

    def __call__(self, function: Any, *_: object, **__: object) -> Any:
        name = getattr(function, "__qualname__", type(function).__qualname__)
        return lambda *_, **__: launch_on_current_stream(f"cute.{name}")


def patch_cute(cute: ModuleType) -> None:
    """For ``cutlass.cute``."""
    replace(cute, "compile", VirtualCuteCompiler())


def patch_dynamo(config: ModuleType) -> None:
    """For ``torch._dynamo.config``."""
    replace(config, "disable", True)

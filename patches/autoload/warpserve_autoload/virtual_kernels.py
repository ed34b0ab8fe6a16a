"""Kernels that take their place in a stream and do nothing there."""

from __future__ import annotations

import sys
from collections import Counter
from types import ModuleType
from typing import Any

from warpserve.patches.virtual_gpu import enqueue, is_virtual

launches: Counter[str] = Counter()
"""How often each kernel was launched in this process, by its name."""


class MissingSymbolError(RuntimeError):
    """A framework lacks what warpserve replaces in it: this version is not known to it."""


def load() -> None:
    """Patches what compiles kernels, when it is imported. Without virtual GPUs, nothing."""
    if not is_virtual():
        return
    from warpserve_autoload import builds, triton

    builds.load()
    triton.load()


def launch(name: str, stream: int) -> None:
    """Counts the kernel and enqueues it in the stream (a ``cudaStream_t``)."""
    launches[name] += 1
    enqueue(stream, 0, f"launch of {name} on the virtual GPU")


def launch_on_current_stream(name: str) -> None:
    """The same in torch's current stream."""
    import torch

    launch(name, torch.cuda.current_stream().cuda_stream)


def replace(module: ModuleType, path: str, value: Any) -> Any:
    """Sets ``path`` ("Class.method") in a module; returns what was there.

    Raises MissingSymbolError where nothing was.
    """
    *parents, last = path.split(".")
    owner: Any = module
    for name in parents:
        owner = getattr(owner, name, None)
    if not hasattr(owner, last):
        version = getattr(sys.modules.get(module.__name__.partition(".")[0]), "__version__", "?")
        raise MissingSymbolError(
            f"warpserve does not know this version ({version}) of {module.__name__}: it has no "
            f"{path}. Use a version that docs/virtual-gpu.md lists"
        )
    before = getattr(owner, last)
    setattr(owner, last, value)
    return before

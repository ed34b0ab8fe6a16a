"""CUDA graphs that vLLM's second model runner captures to measure them, to size its KV cache.

Of batches that are captured in pieces it measures all sizes. No piece is captured of an uncompiled
model, so that it would be a hundred forward passes in Python, of which none needs more memory than
the first, the largest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from warpserve.patches.versions import require_attributes


def manager_class_of(runner: Any) -> Any:
    """Of the second kind of runner, which measures graphs of all batch sizes; else None."""
    if not hasattr(runner, "cudagraph_manager"):
        return None
    from vllm.v1.worker.gpu.cudagraph_utils import CudaGraphManager

    require_attributes(CudaGraphManager, ("capture",))
    return CudaGraphManager


@contextmanager
def only_the_largest(
    manager_class: Any, mode: Any, uncaptured: Callable[[int], None]
) -> Iterator[None]:
    """While it lasts, of the batch sizes that are captured in ``mode`` only the largest is.

    ``uncaptured`` is told how many others there were.
    """
    if manager_class is None:
        yield
        return
    capture = manager_class.capture

    def capture_the_largest(self: Any, *arguments: Any, **options: Any) -> Any:
        sizes = self._capture_descs.get(mode, [])
        if len(sizes) < 2 or getattr(self, "use_breakable_cg", False):
            return capture(self, *arguments, **options)
        self._capture_descs[mode] = sizes[:1]
        try:
            captured = capture(self, *arguments, **options)
        finally:
            self._capture_descs[mode] = sizes
        uncaptured(len(sizes) - 1)
        return captured

    manager_class.capture = capture_the_largest
    try:
        yield
    finally:
        manager_class.capture = capture

"""Loaded inside the members' Python processes, by entry points of the frameworks themselves.

Runs in any engine environment: Python 3.10 to 3.13, nothing but the standard library and what the
framework that called has imported.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

_PACKAGE = Path(__file__).parents[3]
"""The folder of the package ``warpserve``: this file is its patches/autoload/warpserve_autoload."""


def torch() -> None:
    """Called at the end of ``import torch`` (entry point ``torch.backends``)."""
    make_warpserve_importable()
    from warpserve.patches import sglang, vllm
    from warpserve.patches.imported import after_import
    from warpserve.patches.shared_memory import note_shared_memory
    from warpserve_autoload import other_cuda, torch_ops, virtual_kernels

    if other_cuda.refuse():
        return
    torch_ops.load()
    virtual_kernels.load()
    if "WARPSERVE_SESSION" in os.environ:
        after_import("multiprocessing.shared_memory", note_shared_memory)
    vllm.install()
    sglang.install()


def make_warpserve_importable() -> None:
    """Without what lies beside it: its environment's packages are not the engine's."""
    if "warpserve" in sys.modules:
        return
    spec = importlib.util.spec_from_file_location(
        "warpserve", _PACKAGE / "__init__.py", submodule_search_locations=[str(_PACKAGE)]
    )
    assert spec is not None
    assert spec.loader is not None
    package = importlib.util.module_from_spec(spec)
    sys.modules["warpserve"] = package
    spec.loader.exec_module(package)

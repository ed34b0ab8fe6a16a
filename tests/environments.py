"""Pythons with large packages: those of the installed engines, and one with CuPy.

They lie in warpserve's cache folder. `make engines` installs the engines; the other is made by the
first test that needs it.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from filelock import FileLock

from warpserve.cache import cache_folder
from warpserve.cuda_shim.torch_ops.build import Torch
from warpserve.patches.engines.store import EngineStore

_CUPY = ("cupy-cuda13x==14.2.0", "nvidia-cuda-nvrtc==13.5.37", "nvidia-cuda-runtime==13.5.37")
"""With the headers that it includes in its kernels, and the library that would compile them."""


def torch_pythons() -> list[Path]:
    """Of each installed engine, whose torch is one for CUDA."""
    return [engine.python for engine in EngineStore() if Torch.of(engine.python) is not None]


def require_torch() -> list[Path]:
    """The same; without any, a test that needs one fails."""
    found = torch_pythons()
    assert found, "no engine is installed: run `make engines`"
    return found


def cupy_python() -> Path:
    folder = cache_folder() / "tests" / _CUPY[0]
    folder.parent.mkdir(parents=True, exist_ok=True)
    python = folder / "bin" / "python"
    with FileLock(f"{folder}.lock"):
        if not (folder / "complete").exists():
            subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
            install = [
                str(python),
                "-m",
                "pip",
                "install",
                "--quiet",
                "--disable-pip-version-check",
            ]
            subprocess.run([*install, *_CUPY], check=True, stderr=subprocess.DEVNULL)
            (folder / "complete").touch()
    return python

"""Pythons with large packages: those of the installed engines, of CuPy, of benchmark clients.

They lie in warpserve's cache folder. `make engines` installs the engines; the others are made by
the first test that needs them.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from filelock import FileLock

from warpserve.cache import cache_folder
from warpserve.cuda_shim.torch_ops.build import Torch
from warpserve.patches.engines import EngineRequirement, EngineStore

_CUPY = ("cupy-cuda13x==14.2.0", "nvidia-cuda-nvrtc==13.5.37", "nvidia-cuda-runtime==13.5.37")
"""With the headers that it includes in its kernels, and the library that would compile them."""
_CLIENTS = ("guidellm==0.8.1", "aiperf==0.13.0")
OLDER_VLLMS = {
    "0.8.5.post1": "transformers<4.52",
    "0.10.2": "transformers<4.58",
    "0.11.0": "transformers<4.58",
    "0.15.1": "transformers<4.58",
}
"""Which the patches do not know, for the sizes of their KV caches; and the newest that they work
with.
"""
_PACKAGES = "lib/python3*/site-packages"


def torch_pythons() -> list[Path]:
    """Of each installed engine, whose torch is one for CUDA."""
    return [engine.python for engine in EngineStore() if Torch.of(engine.python) is not None]


def require_torch() -> list[Path]:
    """The same; without any, a test that needs one fails."""
    found = torch_pythons()
    assert found, "no engine is installed: run `make engines`"
    return found


def cupy_python() -> Path:
    return _environment(_CUPY[0], sys.executable, _CUPY)


def older_vllm_python(version: str) -> Path:
    """6 GB, of which the CUDA libraries are never opened. ``version``: one of OLDER_VLLMS."""
    packages = (f"vllm=={version}", OLDER_VLLMS[version])
    return _environment(f"vllm-{version}", sys.executable, packages)


def client_python() -> Path:
    """With benchmark clients of others, installed over the engine's packages.

    They need torch and transformers, as the engine does: on their own they are 6 GB, so 0.5.
    """
    engine = EngineStore().get(EngineRequirement.parse("vllm==0.24.0"))
    return _environment("+".join(_CLIENTS), engine.python, _CLIENTS, over=engine.path)


def _environment(
    name: str, base: str | Path, packages: tuple[str, ...], over: Path | None = None
) -> Path:
    """The Python of an environment with ``packages``, and with those that ``over`` has."""
    folder = cache_folder() / "tests" / name
    folder.parent.mkdir(parents=True, exist_ok=True)
    python = folder / "bin" / "python"
    with FileLock(f"{folder}.lock"):
        if not (folder / "complete").exists():
            subprocess.run([base, "-m", "venv", "--clear", folder], check=True)
            if over is not None:
                (own,), (others,) = (env.glob(_PACKAGES) for env in (folder, over))
                (own / "over.pth").write_text(f"{others}\n")
            install = [
                str(python),
                "-m",
                "pip",
                "install",
                "--quiet",
                "--disable-pip-version-check",
            ]
            subprocess.run([*install, *packages], check=True, stderr=subprocess.DEVNULL)
            (folder / "complete").touch()
    return python

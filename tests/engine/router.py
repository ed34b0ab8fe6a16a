"""SGLang's router, from its own package, in an environment of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from warpserve.cache import cache_folder

_PACKAGE = "sglang-router==0.3.2"


def router_python() -> Path:
    """Its Python; installed on the first call."""
    folder = cache_folder() / "test-router"
    python = folder / "bin" / "python"
    done = folder / "installed"
    if not done.exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", _PACKAGE], check=True)
        done.touch()
    return python

"""What took part in a run, in which versions."""

from __future__ import annotations

import json
import platform
import subprocess
from collections.abc import Sequence
from pathlib import Path

import warpserve
from warpserve.bench.run_folder import RunFolder

_NAMES = ("vllm", "sglang", "torch", "transformers", "numpy", "flashinfer-python", "triton")
_QUESTION = """
import importlib.metadata as m, json, sys
found = {}
for name in sys.argv[1:]:
    try:
        found[name] = m.version(name)
    except m.PackageNotFoundError:
        pass
print(json.dumps({"python": sys.version.split()[0], **found}))
"""


def describe_environment(
    folder: RunFolder, engine_python: Path, commands: Sequence[Sequence[str]]
) -> None:
    """Writes ``environment.json``."""
    answer = subprocess.check_output([str(engine_python), "-c", _QUESTION, *_NAMES], text=True)
    document = {
        "warpserve": warpserve.__version__,
        "python": platform.python_version(),
        "kernel": platform.release(),
        "engine": json.loads(answer),
        "commands": [list(command) for command in commands],
    }
    folder.environment.write_text(json.dumps(document, indent=2) + "\n")

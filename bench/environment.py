"""What took part in a run, in which versions."""

from __future__ import annotations

import json
import platform
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import warpserve
from warpserve.bench.config import ConfigError
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


def engine_versions(python: Path) -> dict[str, str]:
    """Of an engine's Python and of what takes part. Raises ConfigError where it can't be run."""
    try:
        answer = subprocess.run(
            [python, "-c", _QUESTION, *_NAMES], capture_output=True, text=True, check=True
        )
    except OSError as error:
        raise ConfigError(f"the engine's {python}: {error.strerror}") from None
    except subprocess.CalledProcessError as error:
        reason = error.stderr.strip().rpartition("\n")[2] or f"exit code {error.returncode}"
        raise ConfigError(f"the engine's {python} ends with an error: {reason}") from None
    found: dict[str, str] = json.loads(answer.stdout)
    return found


def describe_environment(
    folder: RunFolder, engine: Mapping[str, str], commands: Sequence[Sequence[str]]
) -> None:
    """Writes ``environment.json``. ``engine``: its ``engine_versions``."""
    document = {
        "warpserve": warpserve.__version__,
        "python": platform.python_version(),
        "kernel": platform.release(),
        "engine": engine,
        "commands": [list(command) for command in commands],
    }
    folder.environment.write_text(json.dumps(document, indent=2) + "\n")

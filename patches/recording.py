"""What is recorded of an engine beside its steps: `warpserve record`."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from enum import Enum
from importlib.metadata import version
from pathlib import Path
from typing import Any

from warpserve.patches.step_log import StepLog
from warpserve.predictors.deployment import Deployment
from warpserve.predictors.hardware import Hardware, hardware_named
from warpserve.predictors.origin import RECORDED, origin_of

RECORDING = "WARPSERVE_RECORDING"
"""The folder that a process is to record into; unset where it is not."""

_PRIVATE = ("admin_api_key", "api_key", "hf_token", "ssl_keyfile_password")


def step_log(worker: str) -> StepLog:
    """The recording's. ``worker``: its name."""
    return StepLog.in_folder(_folder() / "steps", worker)


def write_recording(
    engine: str,
    *,
    rank: int,
    device: Any,
    nvml: Any,
    kv_cache: tuple[int, int],
    config: dict[str, Any],
    deployed: Callable[[Hardware], Deployment],
) -> None:
    """``recording-PID.json``: the GPU, the versions and the configuration of a worker.

    ``device``: a torch.device; ``nvml``: the module pynvml; ``kv_cache``: blocks, and the tokens of
    a block; ``config``: objects by name, of which all fields are kept but secrets; ``deployed``:
    what the worker runs, as predictors see it.
    """
    blocks, block_tokens = kv_cache
    gpu = _gpu(device, nvml)
    document = {
        "schema": 1,
        "engine": engine,
        "engine_version": version(engine),
        "torch_version": version("torch"),
        "rank": rank,
        "gpu": gpu,
        "kv_cache": {"blocks": blocks, "block_tokens": block_tokens},
        RECORDED: origin_of(deployed(hardware_named(gpu["name"]))),
        "config": {name: _fields(part) for name, part in config.items()},
    }
    path = _folder() / f"recording-{os.getpid()}.json"
    path.write_text(json.dumps(document, indent=1) + "\n")


def _folder() -> Path:
    return Path(os.environ[RECORDING])


def _gpu(device: Any, nvml: Any) -> dict[str, Any]:
    import torch

    properties = torch.cuda.get_device_properties(device)
    nvml.nvmlInit()
    try:
        driver = nvml.nvmlSystemGetDriverVersion()
    finally:
        nvml.nvmlShutdown()
    return {
        "name": properties.name,
        "memory_bytes": properties.total_memory,
        "compute_capability": f"{properties.major}.{properties.minor}",
        "driver": driver,
        "cuda": torch.version.cuda,
    }


def _fields(part: Any) -> dict[str, Any]:
    return {name: _plain(value) for name, value in vars(part).items() if name not in _PRIVATE}


def _plain(value: Any) -> Any:
    """As JSON has it; what it has no form for, as it prints itself."""
    if value is None or isinstance(value, bool | int | float | str):
        return value.value if isinstance(value, Enum) else value
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, dict):
        return {str(name): _plain(each) for name, each in value.items()}
    return str(value)

"""What is recorded of an engine beside its steps: `warpserve record`."""

from __future__ import annotations

import json
import os
from enum import Enum
from importlib.metadata import version
from pathlib import Path
from typing import Any

RECORDING = "WARPSERVE_RECORDING"
"""The folder that a process is to record into; unset where it is not."""

_PRIVATE = ("hf_token",)


def write_recording(folder: Path, worker: Any) -> None:
    """``recording-PID.json``: the GPU, the versions and the configuration of a Worker."""
    config = worker.vllm_config
    document = {
        "schema": 1,
        "engine": "vllm",
        "engine_version": version("vllm"),
        "torch_version": version("torch"),
        "rank": worker.rank,
        "gpu": _gpu(worker),
        "kv_cache": {
            "blocks": config.cache_config.num_gpu_blocks,
            "block_tokens": config.cache_config.block_size,
        },
        "config": {
            name: _fields(part) for name, part in vars(config).items() if hasattr(part, "__dict__")
        },
    }
    path = folder / f"recording-{os.getpid()}.json"
    path.write_text(json.dumps(document, indent=1) + "\n")


def _gpu(worker: Any) -> dict[str, Any]:
    import torch
    from vllm.third_party import pynvml

    properties = torch.cuda.get_device_properties(worker.device)
    pynvml.nvmlInit()
    try:
        driver = pynvml.nvmlSystemGetDriverVersion()
    finally:
        pynvml.nvmlShutdown()
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

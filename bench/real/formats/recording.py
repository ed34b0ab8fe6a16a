"""The folder of `warpserve record`: a real engine's steps, its log and its configuration."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Literal

from warpserve.bench.real.files import source_of
from warpserve.bench.real.foreign import Foreign, json_of, record_of
from warpserve.bench.real.formats import server_log
from warpserve.bench.real.formats.run_folder import steps_of
from warpserve.bench.real.schema import Deployment, Run
from warpserve.bench.run_folder import RunFolder
from warpserve.predictors.origin import recordings_in

NAME = "warpserve-recording"
WHAT = "the folder of a `warpserve record`"


class _Gpu(Foreign):
    name: str


class _KvCache(Foreign):
    blocks: int
    block_tokens: int


class _Recording(Foreign):
    engine: Literal["vllm", "sglang"]
    engine_version: str
    gpu: _Gpu
    kv_cache: _KvCache


def recognises(path: Path) -> bool:
    return path.is_dir() and bool(recordings_in(path))


def read(path: Path) -> list[Run]:
    """One run without requests: what was asked is known to its client. Raises ImportFailed."""
    folder = RunFolder(path)
    workers = recordings_in(path)
    said = record_of(_Recording, json_of(workers[0]), str(workers[0]))
    logged = server_log.read(folder.engine_log)[0]
    return [
        Run(
            sources=(*(source_of(file, NAME) for file in workers), *logged.sources),
            deployment=_deployment(logged.deployment, said),
            series=logged.series,
            steps=tuple(steps_of(folder.steps, None)),
            warnings=logged.warnings,
        )
    ]


def _deployment(logged: Deployment, said: _Recording) -> Deployment:
    """What the worker says goes before what the log has."""
    ways = (logged.tensor_parallel, logged.pipeline_parallel, logged.data_parallel)
    blocks, block_tokens = said.kv_cache.blocks, said.kv_cache.block_tokens
    return logged.model_copy(
        update={
            "engine": said.engine,
            "engine_version": said.engine_version,
            "gpu": said.gpu.name,
            "gpus": None if None in ways else math.prod(way or 1 for way in ways),
            "kv_blocks": blocks,
            "kv_block_tokens": block_tokens,
            "kv_tokens": blocks * block_tokens,
        }
    )

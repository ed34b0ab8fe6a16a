"""LLMServingSim's recordings of vLLM: a folder of `meta.json`, `requests.jsonl`, `timeseries.csv`.

Its recorder asks vLLM in its own process, and takes the times of a request from vLLM's statistics:
`arrival_time` is of the wall clock, when the request was handed in; the others are of the engine
core's monotonic clock. Its own figures count from `queued_ts`, as do ours of such a run.

The two clocks are laid over each other so that the request which the core took up soonest was taken
up at once: arrivals are late by that unknown time, of the order of a millisecond.
"""

from __future__ import annotations

import csv
import datetime
import io
from pathlib import Path
from typing import Any

from warpserve.bench.real.files import ImportFailed, content_of, source_of
from warpserve.bench.real.foreign import (
    Foreign,
    json_lines_of,
    json_of,
    record_of,
    unknown_fields,
)
from warpserve.bench.real.schema import Deployment, Request, Run, Sample, Workload

NAME = "llmservingsim"
WHAT = "a folder with LLMServingSim's meta.json, requests.jsonl and timeseries.csv"

_TEMPERATURE = 0.0
"""Of all that its recorder sends: bench/core/runner.py of LLMServingSim."""

_ONE_FRONTEND = {"api_server_count": 1}
"""As its recorder is. `vllm serve` would start one for each replica, which share out requests
without knowing of each other's."""

_SAMPLES = ("t", "prompt_throughput", "gen_throughput", "running", "waiting", "kv_cache_pct")


class _Arguments(Foreign):
    tensor_parallel_size: int
    data_parallel_size: int
    enable_expert_parallel: bool
    max_num_seqs: int | None
    max_num_batched_tokens: int | None
    max_model_len: int | None
    dtype: str
    kv_cache_dtype: str


class _KvCache(Foreign):
    num_gpu_blocks: int
    block_size: int
    gpu_memory_utilization: float
    enable_prefix_caching: bool
    num_kv_tokens: int


class _Hardware(Foreign):
    device_count: int
    device_name: str


class _Meta(Foreign):
    schema_version: int
    model: str
    vllm_version: str
    engine_kwargs: _Arguments
    dataset_path: str
    dataset_hash: str
    num_requests: int
    started_at: datetime.datetime
    finished_at: datetime.datetime
    tick_seconds: float
    kv_cache: _KvCache | None = None
    hardware: _Hardware | None = None
    resolved_config: dict[str, Any] | None = None


class _Request(Foreign):
    request_id: str
    input_toks: int
    output_toks: int
    arrival_time: float
    queued_ts: float
    scheduled_ts: float
    first_token_ts: float
    last_token_ts: float


def recognises(path: Path) -> bool:
    return (
        path.is_dir() and (path / "meta.json").exists() and _file(path, "requests.jsonl").exists()
    )


def read(path: Path) -> list[Run]:
    """Raises ImportFailed."""
    meta_file, requests_file = path / "meta.json", _file(path, "requests.jsonl")
    meta = record_of(_Meta, json_of(meta_file), str(meta_file))
    if meta.schema_version != 1:
        raise ImportFailed(f"{meta_file}: schema_version is {meta.schema_version}; known is 1")
    rows = [record_of(_Request, row, str(requests_file)) for row in json_lines_of(requests_file)]
    if len(rows) != meta.num_requests:
        raise ImportFailed(f"{meta_file} says {meta.num_requests} requests, not {len(rows)}")
    samples_file = _file(path, "timeseries.csv")
    files = [meta_file, requests_file, *([samples_file] if samples_file.exists() else [])]
    return [
        Run(
            sources=tuple(source_of(file, NAME) for file in files),
            deployment=_deployment(meta),
            workload=Workload(
                client="LLMServingSim",
                dataset=meta.dataset_path,
                num_requests=meta.num_requests,
                arrivals="trace",
                seed=meta.engine_kwargs.unknown.get("seed"),
                temperature=_TEMPERATURE,
                times_from="queueing",
                started_at=meta.started_at,
            ),
            requests=_requests(rows),
            series=_samples(samples_file, _begin_s(rows) - meta.started_at.timestamp())
            if samples_file.exists()
            else (),
            warnings=unknown_fields([meta, *rows]),
        )
    ]


def _file(folder: Path, name: str) -> Path:
    """The file, or its compressed form where only that is there."""
    compressed = folder / f"{name}.gz"
    return compressed if compressed.exists() else folder / name


def _deployment(meta: _Meta) -> Deployment:
    said, kv, gpu = meta.engine_kwargs, meta.kv_cache, meta.hardware
    resolved = meta.resolved_config or {}
    scheduler, parallel = resolved.get("scheduler_config", {}), resolved.get("parallel_config", {})
    sizes = resolved.get("compilation_config", {}).get("cudagraph_capture_sizes")
    return Deployment(
        engine="vllm",
        engine_version=meta.vllm_version,
        model=meta.model,
        gpu=gpu.device_name if gpu else None,
        tensor_parallel=said.tensor_parallel_size,
        pipeline_parallel=parallel.get("pipeline_parallel_size"),
        data_parallel=said.data_parallel_size,
        expert_parallel=said.enable_expert_parallel,
        dtype=said.dtype,
        kv_cache_dtype=said.kv_cache_dtype,
        max_model_len=resolved.get("model_config", {}).get("max_model_len") or said.max_model_len,
        max_num_seqs=scheduler.get("max_num_seqs") or said.max_num_seqs,
        max_num_batched_tokens=scheduler.get("max_num_batched_tokens")
        or said.max_num_batched_tokens,
        kv_blocks=kv.num_gpu_blocks if kv else None,
        kv_block_tokens=kv.block_size if kv else None,
        kv_tokens=kv.num_kv_tokens if kv else None,
        prefix_caching=kv.enable_prefix_caching if kv else None,
        cuda_graph_sizes=None if sizes is None else tuple(sizes),
        memory_utilization=kv.gpu_memory_utilization if kv else None,
        arguments=said.model_dump() | (_ONE_FRONTEND if said.data_parallel_size > 1 else {}),
    )


def _requests(rows: list[_Request]) -> tuple[Request, ...]:
    core_s = min((row.queued_ts - row.arrival_time for row in rows), default=0.0)
    begin_s = _begin_s(rows)
    return tuple(
        Request(
            id=row.request_id,
            status="completed",
            input_tokens=row.input_toks,
            output_tokens=row.output_toks,
            arrival_s=row.arrival_time - begin_s,
            queued_s=row.queued_ts - core_s - begin_s,
            scheduled_s=row.scheduled_ts - core_s - begin_s,
            ttft_s=row.first_token_ts - row.queued_ts,
            latency_s=row.last_token_ts - row.queued_ts,
        )
        for row in rows
    )


def _begin_s(rows: list[_Request]) -> float:
    """The first arrival, by the wall clock."""
    return min((row.arrival_time for row in rows), default=0.0)


def _samples(path: Path, lead_s: float) -> tuple[Sample, ...]:
    """``lead_s``: how long before the first arrival the recorder started to count."""
    table = csv.DictReader(io.StringIO(content_of(path).decode()))
    if tuple(table.fieldnames or ()) != _SAMPLES:
        raise ImportFailed(f"{path}: the columns are {table.fieldnames}, not {', '.join(_SAMPLES)}")
    try:
        rows = [{name: float(value) for name, value in row.items()} for row in table]
    except (TypeError, ValueError):
        raise ImportFailed(
            f"{path}, line {table.line_num}: no row of {len(_SAMPLES)} numbers"
        ) from None
    has_usage = any(row["kv_cache_pct"] for row in rows)  # an older recorder wrote only zeros
    return tuple(
        Sample(
            time_s=row["t"] - lead_s,
            running=row["running"],
            waiting=row["waiting"],
            kv_usage=row["kv_cache_pct"] / 100 if has_usage else None,
            prompt_tokens_per_s=row["prompt_throughput"],
            output_tokens_per_s=row["gen_throughput"],
        )
        for row in rows
    )

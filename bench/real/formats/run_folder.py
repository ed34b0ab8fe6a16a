"""The folder of `warpserve bench` (bench/run_folder.py)."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from warpserve.bench.config import RunConfig
from warpserve.bench.gauges import GAUGES
from warpserve.bench.kv_cache import kv_tokens
from warpserve.bench.real.files import ImportFailed, source_of
from warpserve.bench.real.foreign import Foreign, json_lines_of, record_of
from warpserve.bench.real.formats import server_log
from warpserve.bench.real.schema import (
    Deployment,
    Request,
    Run,
    Sample,
    Step,
    StepRequest,
    Workload,
)
from warpserve.bench.results import RequestResult
from warpserve.bench.run_folder import RunFolder
from warpserve.cuda_shim.catalogue import GpuSpec

NAME = "warpserve-bench"
WHAT = "the folder of a `warpserve bench`"

_FIELDS = {name: field for gauges in GAUGES.values() for field, name in gauges._asdict().items()}
"""Of samples, by the names of gauges."""


def recognises(path: Path) -> bool:
    return path.is_dir() and RunFolder(path).config.exists()


def read(path: Path) -> list[Run]:
    """Raises ImportFailed."""
    folder = RunFolder(path)
    config = read_config(folder)
    results = read_requests(folder)
    origin_s = min((result.start_s for result in results), default=0.0)
    files = (folder.config, folder.requests, folder.metrics, folder.engine_log)
    logged = server_log.read(folder.engine_log)[0] if folder.engine_log.exists() else None
    return [
        Run(
            sources=tuple(source_of(file, NAME) for file in files if file.exists()),
            deployment=_deployment(config, folder, logged),
            workload=_workload(config),
            requests=tuple(_request(result, origin_s) for result in results),
            series=_samples(folder.metrics, origin_s),
            steps=tuple(steps_of(folder.steps, origin_s)),
            warnings={} if logged is None else logged.warnings,
        )
    ]


def read_config(folder: RunFolder) -> RunConfig:
    """Raises ImportFailed."""
    try:
        return RunConfig.model_validate(yaml.safe_load(folder.config.read_text()))
    except (OSError, yaml.YAMLError, ValidationError) as error:
        raise ImportFailed(f"{folder.config} is no description of an experiment: {error}") from None


def read_requests(folder: RunFolder) -> list[RequestResult]:
    """Raises ImportFailed, also where the run was not finished."""
    if not folder.requests.exists():
        raise ImportFailed(f"{folder.path} has no requests.jsonl: it was not run to its end")
    try:
        return [RequestResult.model_validate(line) for line in json_lines_of(folder.requests)]
    except ValidationError as error:
        raise ImportFailed(f"{folder.requests}: {error.errors()[0]['msg']}") from None


def _deployment(config: RunConfig, folder: RunFolder, logged: Run | None) -> Deployment:
    engine, _, version = config.engine.partition("==")
    gpu = GpuSpec.parse(config.gpu)
    said: dict[str, Any] = {"engine": engine, "model": config.model}
    said |= {"gpu": gpu.kind, "gpus": gpu.count}
    said["engine_version"] = version or None
    said["predictor"] = config.predictor
    if logged is None:
        return Deployment(**said)
    logged_kv = kv_tokens(folder.engine_log.read_text(errors="replace"))
    return logged.deployment.model_copy(update={**said, "kv_tokens": logged_kv})


def _workload(config: RunConfig) -> Workload:
    arrivals = config.arrivals.kind
    if config.concurrency is not None:
        arrivals = "concurrency"
    elif config.rate is not None and math.isinf(config.rate):
        arrivals = "at once"
    return Workload(
        client="warpserve bench",
        dataset=config.workload,
        num_requests=config.num_requests,
        rate=config.rate,
        arrivals=arrivals,
        burstiness=config.arrivals.burstiness if arrivals in ("poisson", "gamma") else None,
        max_concurrency=config.concurrency,
        seed=config.seed,
        temperature=config.sampling.get("temperature"),
        is_streamed=not config.fast,
    )


def _request(result: RequestResult, origin_s: float) -> Request:
    return Request(
        id=str(result.index),
        status="completed" if result.error is None else "failed",
        error=result.error,
        input_tokens=result.input_tokens,
        output_tokens=result.output_tokens,
        arrival_s=result.start_s - origin_s,
        ttft_s=result.ttft_s,
        latency_s=result.latency_s,
        itl_s=None if result.error is not None else result.itl_s,
    )


class _SampleLine(Foreign):
    time_ns: int
    metrics: dict[str, float]


class _StepLine(Foreign):
    start_ns: int
    end_ns: int
    padded_tokens: int
    requests: list[tuple[int, int, bool]]


def _samples(path: Path, origin_s: float) -> tuple[Sample, ...]:
    """Of all engines together: requests are added up, the use of their caches is their mean."""
    if not path.exists():
        return ()
    lines = [record_of(_SampleLine, line, str(path)) for line in json_lines_of(path)]
    return tuple(_sample(line, origin_s) for line in lines)


def _sample(line: _SampleLine, origin_s: float) -> Sample:
    values: dict[str, list[float]] = {}
    for name, value in line.metrics.items():
        field = _FIELDS.get(name.split("{")[0])
        if field is not None:
            values.setdefault(field, []).append(value)
    usage = values.get("kv_usage")
    return Sample(
        time_s=line.time_ns / 1e9 - origin_s,
        running=_sum(values.get("running")),
        waiting=_sum(values.get("waiting")),
        kv_usage=None if usage is None else sum(usage) / len(usage),
    )


def _sum(values: list[float] | None) -> float | None:
    return None if values is None else sum(values)


def steps_of(folder: Path, origin_s: float | None) -> list[Step]:
    """Of the first worker: all of a replica have the same ones.

    ``origin_s``: on the log's clock; None: where the first step begins.
    """
    first = min(folder.iterdir(), default=None) if folder.exists() else None
    if first is None:
        return []
    lines = [record_of(_StepLine, line, str(first)) for line in json_lines_of(first)]
    if origin_s is None and lines:
        origin_s = lines[0].start_ns / 1e9
    return [_step(line, origin_s or 0.0) for line in lines]


def _step(line: _StepLine, origin_s: float) -> Step:
    return Step(
        start_s=line.start_ns / 1e9 - origin_s,
        end_s=line.end_ns / 1e9 - origin_s,
        padded_tokens=line.padded_tokens,
        requests=tuple(
            StepRequest(new_tokens=new, cached_tokens=cached, is_prefill=is_prefill)
            for new, cached, is_prefill in line.requests
        ),
    )

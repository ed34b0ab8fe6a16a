"""GuideLLM's JSON report, of version 0.8 (its report's version 2).

A report has a benchmark for each rate or concurrency, so several runs. Of a request there is its
first and its last token, not those between: no ITL. What GuideLLM calls `inter_token_latency` is
TPOT here, as in `vllm bench serve`; its `time_per_output_token` counts the first token in.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from warpserve.bench.real.files import ImportFailed, source_of
from warpserve.bench.real.foreign import Foreign, json_of, record_of, with_reports_checked
from warpserve.bench.real.schema import Deployment, Request, Run, Workload

NAME = "guidellm"
WHAT = "a JSON report of GuideLLM 0.8 (`--output kind=json,path=…`)"

_VERSION = 2
_ARRIVALS = {
    "poisson": "poisson",
    "constant": "constant",
    "concurrent": "concurrency",
    "synchronous": "concurrency",
    "throughput": "at once",
}


class _Metadata(Foreign):
    version: int
    guidellm_version: str


class _Strategy(Foreign):
    type_: str
    rate: float | None = None
    streams: int | None = None
    max_concurrency: int | None = None
    random_seed: int | None = None


class _Config(Foreign):
    strategy: _Strategy
    backend: dict[str, Any]


class _Timings(Foreign):
    request_start: float | None
    first_token_iteration: float | None
    last_token_iteration: float | None
    request_end: float | None


class _Info(Foreign):
    timings: _Timings
    error: str | None = None


class _Request(Foreign):
    request_id: str
    info: _Info
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None


class _Requests(Foreign):
    successful: list[_Request]
    errored: list[_Request]
    incomplete: list[_Request]


class _Benchmark(Foreign):
    config: _Config
    duration: float
    requests: _Requests
    metrics: dict[str, Any]


class _Report(Foreign):
    metadata: _Metadata
    benchmarks: list[_Benchmark]


def recognises(path: Path) -> bool:
    if path.is_dir() or ".json" not in path.suffixes:
        return False
    try:
        document = json_of(path)
    except ImportFailed:
        return False
    metadata = document.get("metadata") if isinstance(document, dict) else None
    return isinstance(metadata, dict) and "guidellm_version" in metadata


def read(path: Path) -> list[Run]:
    """A run for each benchmark. Raises ImportFailed."""
    report = record_of(_Report, json_of(path), str(path))
    if report.metadata.version != _VERSION:
        raise ImportFailed(
            f"{path}: metadata.version is {report.metadata.version}; known is {_VERSION}"
        )
    return [_run(path, report.metadata, benchmark) for benchmark in report.benchmarks]


def _run(path: Path, metadata: _Metadata, benchmark: _Benchmark) -> Run:
    strategy, backend = benchmark.config.strategy, benchmark.config.backend
    rows = benchmark.requests
    everyone = [*rows.successful, *rows.errored, *rows.incomplete]
    concurrency = _concurrency(strategy, len(everyone))
    arrivals = "concurrency" if concurrency is not None else _ARRIVALS.get(strategy.type_)
    starts = [r.info.timings.request_start for r in everyone]
    begin_s = min((start_s for start_s in starts if start_s is not None), default=0.0)
    requests = [_completed(row, begin_s) for row in rows.successful]
    requests += [_failed(row, begin_s, "an error") for row in rows.errored]
    requests += [_failed(row, begin_s, "not completed") for row in rows.incomplete]
    return with_reports_checked(
        Run(
            sources=(source_of(path, NAME, metadata.guidellm_version),),
            deployment=Deployment(model=backend.get("model")),
            workload=Workload(
                client="guidellm",
                num_requests=len(everyone),
                rate=strategy.rate if arrivals in ("poisson", "constant") else None,
                arrivals=arrivals or strategy.type_,
                max_concurrency=concurrency,
                seed=strategy.random_seed,
                is_streamed=backend.get("stream"),
                duration_s=benchmark.duration,
            ),
            requests=tuple(sorted(requests, key=lambda r: r.arrival_s or 0.0)),
            reported_s=_reported(benchmark.metrics),
            warnings={} if arrivals else {f"unknown strategy {strategy.type_!r}": 1},
        )
    )


def _concurrency(strategy: _Strategy, requests: int) -> int | None:
    """How many may be under way; None: any number, as under a limit that they are too few for."""
    if strategy.type_ == "synchronous":
        return 1
    if strategy.type_ == "concurrent":
        return strategy.streams
    limit = strategy.max_concurrency if strategy.type_ == "throughput" else None
    return limit if limit is not None and limit < requests else None


def _completed(row: _Request, begin_s: float) -> Request:
    """In GuideLLM's clock, whose seconds since 1970 are exact to a quarter of a microsecond."""
    at = row.info.timings
    start_s, end_s = at.request_start, at.last_token_iteration or at.request_end
    return Request(
        id=row.request_id,
        status="completed",
        input_tokens=row.prompt_tokens,
        output_tokens=row.output_tokens,
        cached_tokens=row.cached_tokens,
        arrival_s=None if start_s is None else start_s - begin_s,
        ttft_s=_between(start_s, at.first_token_iteration),
        latency_s=_between(start_s, end_s),
    )


def _failed(row: _Request, begin_s: float, otherwise: str) -> Request:
    start_s = row.info.timings.request_start
    return Request(
        id=row.request_id,
        status="failed",
        error=row.info.error or otherwise,
        input_tokens=row.prompt_tokens,
        arrival_s=None if start_s is None else start_s - begin_s,
    )


def _between(start_s: float | None, end_s: float | None) -> float | None:
    return None if start_s is None or end_s is None else end_s - start_s


def _reported(metrics: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Means only: its percentiles are of another definition, its mean ITL weighs by tokens."""
    found = {}
    for metric, name, unit_s in (
        ("ttft", "time_to_first_token_ms", 1e-3),
        ("latency", "request_latency", 1.0),
    ):
        statistics = (metrics.get(name) or {}).get("successful") or {}
        if statistics.get("mean") and statistics.get("count"):
            found[metric] = {"mean": statistics["mean"] * unit_s}
    return found

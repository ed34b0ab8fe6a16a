"""AIPerf's artifacts, of version 0.13: `profile_export.jsonl` and `profile_export_aiperf.json`.

The first has a line a request, which `--export-level records` (the default) writes. What AIPerf
calls `inter_token_latency` is TPOT here, its `inter_chunk_latency` is ITL.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from warpserve.bench.real.files import ImportFailed, source_of
from warpserve.bench.real.foreign import (
    Foreign,
    json_lines_of,
    json_of,
    record_of,
    with_reports_checked,
)
from warpserve.bench.real.schema import Deployment, Request, Run, Workload

NAME = "aiperf"
WHAT = "an artifact folder of AIPerf 0.13, or its profile_export.jsonl"

_RECORDS, _SUMMARY = "profile_export.jsonl", "profile_export_aiperf.json"
_UNITS_S = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "sec": 1.0}
_REPORTED = {
    "ttft": "time_to_first_token",
    "tpot": "inter_token_latency",
    "itl": "inter_chunk_latency",
    "latency": "request_latency",
}
_PHASES = {
    "poisson": "poisson",
    "gamma": "gamma",
    "constant": "constant",
    "concurrency": "concurrency",
}


class _Metadata(Foreign):
    request_start_ns: int
    benchmark_phase: str
    was_cancelled: bool = False
    x_request_id: str | None = None


class _Metric(Foreign):
    value: float | list[float]
    unit: str


class _Statistics(Foreign):
    avg: float
    unit: str


class _Record(Foreign):
    metadata: _Metadata
    metrics: dict[str, _Metric]
    error: Any = None


class _Summary(Foreign):
    schema_version: str
    aiperf_version: str
    input_config: dict[str, Any]


def recognises(path: Path) -> bool:
    return path.name == _RECORDS or (path.is_dir() and (path / _RECORDS).exists())


def read(path: Path) -> list[Run]:
    """Raises ImportFailed."""
    records = path / _RECORDS if path.is_dir() else path
    rows = [record_of(_Record, row, str(records)) for row in json_lines_of(records)]
    measured = [row for row in rows if row.metadata.benchmark_phase == "profiling"]
    begin_ns = min((row.metadata.request_start_ns for row in measured), default=0)
    requests = [_request(row, begin_ns, records) for row in measured]
    file = records.with_name(_SUMMARY)
    summary = _summary(file) if file.exists() else None
    version = None if summary is None else summary.aiperf_version
    files = [records, *([] if summary is None else [file])]
    warmup = len(rows) - len(measured)
    config = {} if summary is None else summary.input_config
    return [
        with_reports_checked(
            Run(
                sources=tuple(source_of(each, NAME, version) for each in files),
                deployment=Deployment(model=_model(config)),
                workload=_workload(config, summary),
                requests=tuple(sorted(requests, key=lambda r: r.arrival_s or 0.0)),
                reported_s={} if summary is None else _reported(summary, file),
                warnings={"requests of another phase, left out": warmup} if warmup else {},
            )
        )
    ]


def _summary(path: Path) -> _Summary:
    summary = record_of(_Summary, json_of(path), str(path))
    if summary.schema_version.partition(".")[0] != "1":
        raise ImportFailed(f"{path}: schema_version is {summary.schema_version}; known is 1")
    return summary


def _request(row: _Record, begin_ns: int, path: Path) -> Request:
    arrival_s = (row.metadata.request_start_ns - begin_ns) / 1e9
    input_tokens = _tokens(row, "usage_prompt_tokens", "input_sequence_length")
    if row.error is not None or row.metadata.was_cancelled:
        return Request(
            id=row.metadata.x_request_id,
            status="failed",
            error="cancelled" if row.error is None else str(row.error),
            input_tokens=input_tokens,
            arrival_s=arrival_s,
        )
    itl, metrics = row.metrics.get("inter_chunk_latency"), row.metrics
    return Request(
        id=row.metadata.x_request_id,
        status="completed",
        input_tokens=input_tokens,
        output_tokens=_tokens(row, "usage_completion_tokens", "output_sequence_length"),
        cached_tokens=_tokens(row, "usage_prompt_cached_tokens"),
        arrival_s=arrival_s,
        ttft_s=_seconds(metrics.get("time_to_first_token"), path),
        latency_s=_seconds(metrics.get("request_latency"), path),
        itl_s=None if itl is None else tuple(_seconds_each(itl, path)),
    )


def _tokens(row: _Record, *names: str) -> int | None:
    """As the server counted them, or else the client."""
    found = [row.metrics[name].value for name in names if name in row.metrics]
    return int(found[0]) if found and isinstance(found[0], float) else None


def _seconds(metric: _Metric | None, path: Path) -> float | None:
    return None if metric is None else _seconds_each(metric, path)[0]


def _seconds_each(metric: _Metric, path: Path) -> list[float]:
    values = metric.value if isinstance(metric.value, list) else [metric.value]
    return [_unit_s(metric.unit, path) * value for value in values]


def _unit_s(unit: str, path: Path) -> float:
    if unit not in _UNITS_S:
        raise ImportFailed(f"{path}: a time in {unit!r}; known are {', '.join(_UNITS_S)}")
    return _UNITS_S[unit]


def _model(config: dict[str, Any]) -> str | None:
    models = config.get("models", {}).get("items", [])
    return models[0].get("name") if len(models) == 1 else None


def _workload(config: dict[str, Any], summary: _Summary | None) -> Workload:
    phases = [p for p in config.get("phases", []) if p.get("kind") == "profiling"]
    phase = phases[0] if len(phases) == 1 else {}
    extra = {} if summary is None else summary.unknown
    kind = str(phase["type"]) if "type" in phase else None
    return Workload(
        client="aiperf",
        num_requests=phase.get("requests"),
        rate=phase.get("rate"),
        arrivals=None if kind is None else _PHASES.get(kind, kind),
        max_concurrency=phase.get("concurrency"),
        is_streamed=config.get("endpoint", {}).get("streaming"),
        duration_s=extra.get("benchmark_duration", {}).get("avg"),
    )


def _reported(summary: _Summary, path: Path) -> dict[str, dict[str, float]]:
    """Means only: its percentiles are of another definition."""
    found = {}
    for metric, name in _REPORTED.items():
        if summary.unknown.get(name):
            statistics = record_of(_Statistics, summary.unknown[name], f"{path}: {name}")
            found[metric] = {"mean": statistics.avg * _unit_s(statistics.unit, path)}
    return found

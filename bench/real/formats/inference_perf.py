"""inference-perf's reports, of versions 0.1 to 0.7.

With `report.request_lifecycle.per_request: true` there is `per_request_lifecycle_metrics.json`, all
stages together; without, only `summary_lifecycle_metrics.json`. Of the answer's chunks each has a
time in `output_token_times`; latency is to the last of them here, and to the end of the connection
in its own summary.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

from warpserve.bench.real.files import ImportFailed, source_of
from warpserve.bench.real.foreign import Foreign, json_of, record_of, unknown_fields
from warpserve.bench.real.schema import Request, Run, Workload

NAME = "inference-perf"
WHAT = "a report folder of inference-perf, or its per_request_lifecycle_metrics.json"

_RECORDS, _SUMMARY = "per_request_lifecycle_metrics.json", "summary_lifecycle_metrics.json"
_REPORTED = {
    "ttft": "time_to_first_token",
    "tpot": "time_per_output_token",
    "itl": "inter_token_latency",
    "latency": "request_latency",
}
_STATISTICS = {"mean": "mean", "median": "p50", "p90": "p90", "p95": "p95", "p99": "p99"}


class _Response(Foreign):
    output_tokens: int | None = None
    output_token_times: tuple[float, ...] = ()
    server_usage: dict[str, Any] | None = None


class _Text(Foreign):
    input_tokens: int | None = None


class _RequestMetrics(Foreign):
    text: _Text = _Text()


class _Info(Foreign):
    """Since 0.5 with parts of its own; before, all on one level."""

    request_metrics: _RequestMetrics | None = None
    response_metrics: _Response | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    output_token_times: tuple[float, ...] | None = None


class _Record(Foreign):
    start_time: float
    end_time: float
    info: _Info
    error: dict[str, Any] | None
    request: Any = None
    response: Any = None
    computed_metrics: Any = None


class _Latency(Foreign):
    """Of each metric the statistics, in seconds; None where no request has it."""

    time_to_first_token: dict[str, float] | None = None
    time_per_output_token: dict[str, float] | None = None
    inter_token_latency: dict[str, float] | None = None
    request_latency: dict[str, float] | None = None


class _Successes(Foreign):
    latency: _Latency


class _Load(Foreign):
    count: int
    requested_rate: float | None = None
    concurrency: int | None = None


class _Summary(Foreign):
    successes: _Successes
    load_summary: _Load


def recognises(path: Path) -> bool:
    names = (_RECORDS, _SUMMARY)
    return path.name in names or (path.is_dir() and any((path / name).exists() for name in names))


def read(path: Path) -> list[Run]:
    """Raises ImportFailed."""
    folder = path if path.is_dir() else path.parent
    if path.name == _SUMMARY or not (folder / _RECORDS).exists():
        return [_summary_run(folder / _SUMMARY)]
    file = folder / _RECORDS
    rows = json_of(file)
    if not isinstance(rows, list):
        raise ImportFailed(f"{file} is no list of requests")
    records = [record_of(_Record, row, f"{file}, request {n}") for n, row in enumerate(rows)]
    begin_s = min((record.start_time for record in records), default=0.0)
    requests = sorted(
        (_request(record, begin_s) for record in records), key=lambda r: r.arrival_s or 0.0
    )
    return [
        Run(
            sources=(source_of(file, NAME),),
            workload=Workload(
                client="inference-perf",
                num_requests=len(records),
                is_streamed=any(_token_times(record.info) for record in records) or None,
            ),
            requests=tuple(requests),
            warnings=unknown_fields(records),
        )
    ]


def _request(record: _Record, begin_s: float) -> Request:
    arrival_s, info = record.start_time - begin_s, record.info
    input_tokens = _input_tokens(info)
    if record.error is not None:
        return Request(
            status="failed",
            error=f"{record.error.get('error_type')}: {record.error.get('error_msg')}",
            input_tokens=input_tokens,
            arrival_s=arrival_s,
        )
    times = _token_times(info)
    return Request(
        status="completed",
        input_tokens=input_tokens,
        output_tokens=_output_tokens(info),
        arrival_s=arrival_s,
        ttft_s=times[0] - record.start_time if times else None,
        latency_s=(times[-1] if times else record.end_time) - record.start_time,
        itl_s=tuple(b - a for a, b in pairwise(times)) if times else None,
    )


def _token_times(info: _Info) -> tuple[float, ...]:
    if info.response_metrics is not None:
        return info.response_metrics.output_token_times
    return info.output_token_times or ()


def _input_tokens(info: _Info) -> int | None:
    """As the server counted them, or else the client."""
    response, metrics = info.response_metrics, info.request_metrics
    counted = info.input_tokens if metrics is None else metrics.text.input_tokens
    usage = (None if response is None else response.server_usage) or {}
    return usage.get("prompt_tokens", counted)


def _output_tokens(info: _Info) -> int | None:
    """Likewise."""
    response = info.response_metrics
    if response is None:
        return info.output_tokens
    usage = response.server_usage or {}
    return usage.get("completion_tokens", response.output_tokens)


def _summary_run(path: Path) -> Run:
    summary = record_of(_Summary, json_of(path), str(path))
    latency, load = summary.successes.latency, summary.load_summary
    reported = {
        metric: {
            ours: statistics[theirs] for theirs, ours in _STATISTICS.items() if theirs in statistics
        }
        for metric, name in _REPORTED.items()
        if (statistics := getattr(latency, name))
    }
    return Run(
        sources=(source_of(path, NAME),),
        workload=Workload(
            client="inference-perf",
            num_requests=load.count,
            rate=load.requested_rate,
            max_concurrency=load.concurrency,
        ),
        reported_s=reported,
        warnings={"saved without per_request: no requests, only the tool's own figures": 1},
    )

"""Result files of `vllm bench serve --save-result`, with `--save-detailed` or without.

Of vLLM 0.19 and 0.24: vllm/benchmarks/serve.py. With `--append-result` a file has several runs.
What `--metadata NAME=VALUE` adds are fields that we do not know, and are counted as such.
"""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any, Literal

from warpserve.bench.real.files import ImportFailed, content_of, source_of
from warpserve.bench.real.foreign import (
    Foreign,
    completed_request,
    record_of,
    rows_of,
    unknown_fields,
    with_reports_checked,
)
from warpserve.bench.real.schema import Deployment, Request, Run, Workload

NAME = "vllm-bench"
WHAT = "a JSON file of `vllm bench serve --save-result [--save-detailed]`"

_FIGURE = re.compile(r"(mean|median|std|p\d+(?:\.\d+)?)_(ttft|tpot|itl|e2el)_ms")
_METRICS = {"e2el": "latency"}
_STATISTICS = {"median": "p50"}


class _Result(Foreign):
    date: str
    backend: str
    model_id: str
    num_prompts: int
    request_rate: float | Literal["inf"]
    burstiness: float
    max_concurrency: int | None
    duration: float
    completed: int
    failed: int | None = None
    # With --save-detailed:
    input_lens: list[int] | None = None
    output_lens: list[int] | None = None
    ttfts: list[float] | None = None
    itls: list[list[float]] | None = None
    errors: list[str] | None = None
    start_times: list[float] | None = None
    # What they imply, or what does not concern a comparison:
    endpoint_type: str | None = None
    endpoint: str | None = None
    label: str | None = None
    tokenizer_id: str | None = None
    total_input_tokens: int | None = None
    total_output_tokens: int | None = None
    request_throughput: float | None = None
    request_goodput: float | None = None
    output_throughput: float | None = None
    total_token_throughput: float | None = None
    max_output_tokens_per_s: float | None = None
    max_concurrent_requests: int | None = None
    rtfx: float | None = None
    generated_texts: list[str] | None = None
    ramp_up_strategy: str | None = None
    ramp_up_start_rps: float | None = None
    ramp_up_end_rps: float | None = None
    rps_change_events: list[Any] | None = None

    @property
    def unknown(self) -> dict[str, Any]:
        return {
            name: value
            for name, value in super().unknown.items()
            if not _FIGURE.fullmatch(name) and not name.startswith("spec_decode_")
        }


def recognises(path: Path) -> bool:
    if path.is_dir() or ".json" not in path.suffixes:
        return False
    first = _documents(path, at_most=1)
    return bool(first) and {"model_id", "num_prompts", "burstiness"} <= first[0].keys()


def read(path: Path) -> list[Run]:
    """Raises ImportFailed."""
    results = [record_of(_Result, document, str(path)) for document in _documents(path)]
    return [_run(path, result) for result in results]


def _documents(path: Path, at_most: int | None = None) -> list[dict[str, Any]]:
    """Of a file to which results are appended, one after the other; none where it is no JSON."""
    text, decoder = content_of(path).decode(errors="replace").strip(), json.JSONDecoder()
    found: list[dict[str, Any]] = []
    while text and len(found) != at_most:
        try:
            document, end = decoder.raw_decode(text)
        except ValueError:
            if at_most is None:
                raise ImportFailed(f"{path}: result {len(found) + 1} is no JSON") from None
            return []
        if not isinstance(document, dict):
            return []
        found.append(document)
        text = text[end:].lstrip()
    return found


def _run(path: Path, result: _Result) -> Run:
    rate = math.inf if result.request_rate == "inf" else result.request_rate
    return with_reports_checked(
        Run(
            sources=(source_of(path, NAME),),
            deployment=Deployment(
                engine="vllm" if result.backend == "vllm" else None, model=result.model_id
            ),
            workload=Workload(
                client="vllm bench serve",
                num_requests=result.num_prompts,
                rate=None if result.ramp_up_strategy else rate,
                arrivals=_arrivals(result, rate),
                burstiness=result.burstiness if math.isfinite(rate) else None,
                max_concurrency=result.max_concurrency,
                is_streamed=True,
                duration_s=result.duration,
            ),
            requests=_requests(path, result),
            reported_s=_figures(result),
            warnings=_warnings(result),
        )
    )


def _arrivals(result: _Result, rate: float) -> str:
    if result.ramp_up_strategy:
        return f"{result.ramp_up_strategy} ramp"
    if math.isinf(rate):
        return "at once" if result.max_concurrency is None else "concurrency"
    return "poisson" if result.burstiness == 1 else "gamma"


def _figures(result: _Result) -> dict[str, dict[str, float]]:
    figures: dict[str, dict[str, float]] = {}
    for name, value in (result.model_extra or {}).items():
        match = _FIGURE.fullmatch(name)
        if match and match[1] != "std" and value is not None:
            metric = figures.setdefault(_METRICS.get(match[2], match[2]), {})
            metric[_STATISTICS.get(match[1], match[1])] = value / 1e3
    return figures


def _requests(path: Path, result: _Result) -> tuple[Request, ...]:
    columns = (result.input_lens, result.output_lens, result.ttfts, result.itls, result.errors)
    # vLLM before 0.12 has no start_times.
    begin_s = min(result.start_times or [0.0])
    return tuple(_request(begin_s, *row) for row in rows_of(path, columns, result.start_times))


def _request(
    begin_s: float,
    input_tokens: int,
    output_tokens: int,
    ttft_s: float,
    itl_s: list[float],
    error: str,
    start_s: float | None,
) -> Request:
    arrival_s = None if start_s is None else start_s - begin_s
    # One that failed without a word has neither tokens nor a time: a zero is no measurement.
    if error or not (ttft_s or output_tokens):
        return Request(
            status="failed",
            error=error or "no answer, and no error either",
            input_tokens=input_tokens,
            arrival_s=arrival_s,
        )
    return completed_request(input_tokens, output_tokens, ttft_s, itl_s, arrival_s=arrival_s)


def _warnings(result: _Result) -> dict[str, int]:
    warnings = unknown_fields([result])
    if result.input_lens is None:
        warnings["saved without --save-detailed: no requests, only the tool's own figures"] = 1
    return warnings

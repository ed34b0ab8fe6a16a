"""Result files of `sglang.bench_serving --output-file`, with `--output-details` or without.

Of SGLang 0.5: sglang/benchmark/serving.py. Each run appends a line to its file. It says of a
request neither when it was sent nor its latency, which is that of its last token here. The line has
the answer of SGLang's `/server_info`, unless the server is another engine.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, Literal

from warpserve.bench.real.files import ImportFailed, source_of
from warpserve.bench.real.foreign import (
    Foreign,
    completed_request,
    json_lines_of,
    record_of,
    rows_of,
    unknown_fields,
    with_reports_checked,
)
from warpserve.bench.real.schema import Deployment, Request, Run, Workload
from warpserve.bench.real.sglang_graphs import graph_sizes

NAME = "sglang-bench"
WHAT = "a JSONL file of `sglang.bench_serving [--output-details]`"

_METRICS = {"ttft": "ttft", "tpot": "tpot", "itl": "itl", "latency": "e2e_latency"}
_STATISTICS = {"mean": "mean", "p50": "median", "p90": "p90", "p95": "p95", "p99": "p99"}
_IMPLIED = frozenset(
    f"{statistic}_{metric}_ms"
    for metric in _METRICS.values()
    for statistic in ("mean", "median", "std", "p90", "p95", "p99")
)


class _ServerInfo(Foreign):
    """Of the many arguments those that the schema has fields for."""

    version: str | None = None
    model_path: str | None = None
    tp_size: int | None = None
    pp_size: int | None = None
    dp_size: int | None = None
    ep_size: int | None = None
    dtype: str | None = None
    quantization: str | None = None
    kv_cache_dtype: str | None = None
    context_length: int | None = None
    max_running_requests: int | None = None
    page_size: int | None = None
    max_total_num_tokens: int | None = None
    mem_fraction_static: float | None = None
    disable_radix_cache: bool | None = None


class _Result(Foreign):
    backend: str
    dataset_name: str
    request_rate: float | Literal["trace"]
    max_concurrency: int | None
    server_info: _ServerInfo | None = None
    duration: float
    completed: int
    # With --output-details:
    input_lens: list[int] | None = None
    output_lens: list[int] | None = None
    ttfts: list[float] | None = None
    itls: list[list[float]] | None = None
    errors: list[str] | None = None
    cached_tokens: list[int] | None = None
    # What they imply, or what does not concern a comparison:
    tag: str | None = None
    sharegpt_output_len: int | None = None
    random_input_len: int | None = None
    random_output_len: int | None = None
    random_range_ratio: float | None = None
    total_input_tokens: int | None = None
    total_input_text_tokens: int | None = None
    total_input_vision_tokens: int | None = None
    total_output_tokens: int | None = None
    total_output_tokens_retokenized: int | None = None
    request_throughput: float | None = None
    input_throughput: float | None = None
    output_throughput: float | None = None
    total_throughput: float | None = None
    concurrency: float | None = None
    accept_length: float | None = None
    max_output_tokens_per_s: float | None = None
    max_concurrent_requests: int | None = None
    generated_texts: list[str] | None = None
    cached_tokens_details: list[Any] | None = None
    cache_report: dict[str, Any] | None = None

    @property
    def unknown(self) -> dict[str, Any]:
        extra = super().unknown
        return {name: value for name, value in extra.items() if name not in _IMPLIED}


def recognises(path: Path) -> bool:
    if path.is_dir() or ".json" not in "".join(path.suffixes):
        return False
    try:
        first = next(iter(json_lines_of(path)), None)
    except ImportFailed:
        return False
    return isinstance(first, dict) and {"sharegpt_output_len", "server_info"} <= first.keys()


def read(path: Path) -> list[Run]:
    """A run for each line. Raises ImportFailed."""
    results = [record_of(_Result, line, str(path)) for line in json_lines_of(path)]
    return [_run(path, result) for result in results]


def _run(path: Path, result: _Result) -> Run:
    rate = None if result.request_rate == "trace" else result.request_rate
    return with_reports_checked(
        Run(
            sources=(source_of(path, NAME),),
            deployment=_deployment(result),
            workload=Workload(
                client="sglang.bench_serving",
                dataset=result.dataset_name,
                num_requests=None if result.errors is None else len(result.errors),
                rate=rate,
                arrivals=_arrivals(rate, result.max_concurrency),
                max_concurrency=result.max_concurrency,
                is_streamed=True,
                duration_s=result.duration,
            ),
            requests=_requests(path, result),
            reported_s=_figures(result.model_extra or {}),
            warnings=_warnings(result),
        )
    )


def _arrivals(rate: float | None, max_concurrency: int | None) -> str:
    if rate is None:
        return "trace"
    if math.isinf(rate):
        return "at once" if max_concurrency is None else "concurrency"
    return "poisson"


def _deployment(result: _Result) -> Deployment:
    engine: Literal["sglang", "vllm"] | None = None
    if result.backend.startswith("sglang"):
        engine = "sglang"
    elif result.backend.startswith("vllm"):
        engine = "vllm"
    info = result.server_info
    if info is None:
        return Deployment(engine=engine)
    tokens, page_tokens = info.max_total_num_tokens, info.page_size
    arguments = info.model_dump(exclude_unset=True)
    return Deployment(
        engine=engine,
        engine_version=info.version,
        model=info.model_path,
        tensor_parallel=info.tp_size,
        pipeline_parallel=info.pp_size,
        data_parallel=info.dp_size,
        expert_parallel=None if info.ep_size is None else info.ep_size > 1,
        dtype=info.dtype,
        quantization=info.quantization,
        kv_cache_dtype=info.kv_cache_dtype,
        max_model_len=info.context_length,
        max_num_seqs=info.max_running_requests,
        kv_blocks=tokens // page_tokens if tokens and page_tokens else None,
        kv_block_tokens=page_tokens,
        kv_tokens=tokens,
        prefix_caching=None if info.disable_radix_cache is None else not info.disable_radix_cache,
        cuda_graph_sizes=graph_sizes(arguments, "decode"),
        memory_utilization=info.mem_fraction_static,
        arguments=arguments,
    )


def _figures(fields: dict[str, Any]) -> dict[str, dict[str, float]]:
    figures: dict[str, dict[str, float]] = {}
    for metric, theirs in _METRICS.items():
        for statistic, name in _STATISTICS.items():
            value_ms = fields.get(f"{name}_{theirs}_ms")
            if value_ms is not None:
                figures.setdefault(metric, {})[statistic] = value_ms / 1e3
    return figures


def _requests(path: Path, result: _Result) -> tuple[Request, ...]:
    columns = (result.input_lens, result.output_lens, result.ttfts, result.itls, result.errors)
    return tuple(_request(*row) for row in rows_of(path, columns, result.cached_tokens))


def _request(
    input_tokens: int,
    output_tokens: int,
    ttft_s: float,
    itl_s: list[float],
    error: str,
    cached_tokens: int | None,
) -> Request:
    # An answer without a token counts there as one with all that were asked for, after no time.
    if error or not output_tokens or not ttft_s:
        return Request(
            status="failed", error=error or "no token came back", input_tokens=input_tokens
        )
    return completed_request(
        input_tokens, output_tokens, ttft_s, itl_s, cached_tokens=cached_tokens
    )


def _warnings(result: _Result) -> dict[str, int]:
    warnings = unknown_fields([result])
    if result.input_lens is None:
        warnings["saved without --output-details: no requests, only the tool's own figures"] = 1
    return warnings

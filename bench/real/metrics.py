"""The figures of a run, by the definitions of `vllm bench serve` (vllm/benchmarks/serve.py).

| metric | of | what |
|---|---|---|
| ``ttft`` | request | from sending to its first token |
| ``tpot`` | request | from first to last token, a token after the first; none below two tokens |
| ``itl`` | gap | from one chunk of tokens to the next, all requests' gaps together |
| ``latency`` | request | from sending to its last token (there: E2EL) |

Of completed requests only. ``makespan`` is from the first sending to the last token; throughputs
are completed requests and their output tokens over it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from warpserve.bench.real.schema import Request, Run

Values = NDArray[np.float64]

METRICS = ("ttft", "tpot", "itl", "latency")
TITLES = {"ttft": "TTFT", "tpot": "TPOT", "itl": "ITL", "latency": "E2E latency"}
STATISTICS: Mapping[str, Callable[[Values], float]] = {
    "mean": lambda values: float(values.mean()),
    "p50": lambda values: float(np.percentile(values, 50)),
    "p90": lambda values: float(np.percentile(values, 90)),
    "p95": lambda values: float(np.percentile(values, 95)),
    "p99": lambda values: float(np.percentile(values, 99)),
}


def values_of(run: Run, metric: str) -> Values:
    """In seconds, in the order of the requests; empty where the run does not have the metric."""
    return np.concatenate([np.zeros(0), *(of_request(r, metric) for r in run.completed)])


def of_request(request: Request, metric: str) -> list[float]:
    """In seconds: one value, none, or for ``itl`` many."""
    if metric == "itl":
        return list(request.itl_s or ())
    value = {"ttft": request.ttft_s, "tpot": request.tpot_s, "latency": request.latency_s}[metric]
    return [] if value is None else [value]


def makespan_s(run: Run) -> float | None:
    """As the requests tell, or else the tool; None where neither does."""
    begun = [begin_s(run, request) for request in run.requests]
    starts = [start_s for start_s in begun if start_s is not None]
    ends = [
        start_s + request.latency_s
        for start_s, request in zip(begun, run.requests, strict=True)
        if start_s is not None and request.latency_s is not None
    ]
    if len(starts) < len(run.requests) or not ends:
        return run.workload.duration_s
    return max(ends) - min(starts)


def begin_s(run: Run, request: Request) -> float | None:
    """The instant from which its TTFT and its latency count."""
    is_queued = run.workload.times_from == "queueing"
    return request.queued_s if is_queued else request.arrival_s


def throughputs(run: Run) -> dict[str, float]:
    """``makespan`` in s, ``requests`` and ``output_tokens`` a second, as far as they are known."""
    span_s, completed = makespan_s(run), run.completed
    if not span_s or not completed:
        return {}
    found = {"makespan": span_s, "requests": len(completed) / span_s}
    tokens = [request.output_tokens for request in completed]
    if None not in tokens:
        found["output_tokens"] = sum(count or 0 for count in tokens) / span_s
    return found

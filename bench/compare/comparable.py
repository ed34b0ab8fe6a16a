"""Whether two runs are runs of the same thing: what differs, by name, before any figure is shown.

What one of them does not say cannot differ; it is listed as not known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict

from warpserve.bench.real.names import gpu_kind, model_name
from warpserve.bench.real.schema import Deployment, Request, Run, Workload

_RATE_TOLERANCE = 0.01
_LENGTH_TOLERANCE = 0.01
_ARRIVAL_TOLERANCE_S = 0.1
"""Clients of real runs send late, by milliseconds and at times by tens of them."""

_Weight = Literal["refused", "flagged"]

_DECIDING: dict[str, Callable[[Any], Any]] = {
    "engine": str,
    "model": model_name,
    "gpu": gpu_kind,
    "gpus": int,
    "tensor_parallel": int,
    "pipeline_parallel": int,
    "data_parallel": int,
    "expert_parallel": bool,
    "dtype": str,
    "quantization": str,
}
"""Fields of a deployment without whose agreement figures mean nothing, and how they are read."""

_TELLING = (
    "engine_version",
    "kv_cache_dtype",
    "max_model_len",
    "max_num_seqs",
    "max_num_batched_tokens",
    "kv_tokens",
    "prefix_caching",
    "cuda_graph_sizes",
)


_SAY_LIMITS = ("vllm bench serve", "sglang.bench_serving", "guidellm", "warpserve bench")
"""Clients that always say how many requests may be under way: if they say nothing, any number."""


class Difference(BaseModel):
    """One thing in which two runs differ."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    what: str
    run: str
    real: str
    weight: _Weight
    """Refused: the runs are not of the same thing. Flagged: it may explain an error."""

    def __str__(self) -> str:
        return f"{self.what}: {self.run} against {self.real}"


def differences(run: Run, real: Run) -> list[Difference]:
    """The refused ones first."""
    found = [*_of_deployments(run.deployment, real.deployment)]
    found += _of_workloads(run.workload, real.workload)
    found += _of_requests(run, real)
    return sorted(found, key=lambda difference: difference.weight, reverse=True)


def not_known(run: Run, real: Run) -> list[str]:
    """What at least one of them does not say."""
    fields = [(run.deployment, real.deployment, name) for name in (*_DECIDING, *_TELLING)]
    fields += [(run.workload, real.workload, name) for name in ("cache", "rate")]  # type: ignore[misc]
    unknown = [
        name
        for ours, theirs, name in fields
        if getattr(ours, name) is None or getattr(theirs, name) is None
    ]
    if None in (_limit(run.workload), _limit(real.workload)):
        unknown.append("max_concurrency")
    return [name.replace("_", " ") for name in unknown]


def _of_deployments(ours: Deployment, theirs: Deployment) -> Iterator[Difference]:
    for name, read in _DECIDING.items():
        yield from _difference(name, getattr(ours, name), getattr(theirs, name), read, "refused")
    for name in _TELLING:
        yield from _difference(name, getattr(ours, name), getattr(theirs, name), None, "flagged")


def _of_workloads(ours: Workload, theirs: Workload) -> Iterator[Difference]:
    yield from _difference("cache", ours.cache, theirs.cache, None, "refused")
    yield from _difference("max_concurrency", _limit(ours), _limit(theirs), None, "refused")
    if ours.rate is not None and theirs.rate is not None:
        if not np.isclose(ours.rate, theirs.rate, rtol=_RATE_TOLERANCE):
            yield _said("rate", ours.rate, theirs.rate, "refused")
        else:
            yield from _difference(
                "burstiness", ours.burstiness, theirs.burstiness, None, "refused"
            )
    yield from _difference("temperature", ours.temperature, theirs.temperature, None, "flagged")
    yield from _difference("is_streamed", ours.is_streamed, theirs.is_streamed, None, "flagged")
    if ours.times_from != theirs.times_from:
        yield _said("times count from", ours.times_from, theirs.times_from, "flagged")


def _limit(workload: Workload) -> int | Literal["none"] | None:
    """Of requests under way; None: not known."""
    if workload.max_concurrency is None and workload.client in _SAY_LIMITS:
        return "none"
    return workload.max_concurrency


def _of_requests(ours: Run, theirs: Run) -> Iterator[Difference]:
    if not ours.requests or not theirs.requests:
        yield from _difference("number of requests", _count(ours), _count(theirs), None, "refused")
        return
    if len(ours.requests) != len(theirs.requests):
        yield _said("number of requests", len(ours.requests), len(theirs.requests), "refused")
    if len(ours.completed) != len(theirs.completed):
        yield _said("completed", len(ours.completed), len(theirs.completed), "flagged")
    yield from _of_lengths("input tokens", ours.requests, theirs.requests, _input_tokens)
    yield from _of_lengths("output tokens", ours.completed, theirs.completed, _output_tokens)
    yield from _of_arrivals(ours, theirs)


def _of_lengths(
    what: str,
    ours: tuple[Request, ...] | list[Request],
    theirs: tuple[Request, ...] | list[Request],
    length: Callable[[Request], int | None],
) -> Iterator[Difference]:
    a, b = [length(request) for request in ours], [length(request) for request in theirs]
    if None in a or None in b or not a or not b or sorted(a) == sorted(b):  # type: ignore[type-var]
        return
    mean_a, mean_b = np.mean(a), np.mean(b)  # type: ignore[arg-type]
    is_far = abs(mean_a - mean_b) > _LENGTH_TOLERANCE * mean_b
    weight: _Weight = "refused" if is_far else "flagged"
    yield _said(f"{what}, mean", f"{mean_a:,.1f}", f"{mean_b:,.1f}", weight)


def _of_arrivals(ours: Run, theirs: Run) -> Iterator[Difference]:
    """Of the same number of requests: whether they were sent at the same times."""
    a = [request.arrival_s for request in ours.requests]
    b = [request.arrival_s for request in theirs.requests]
    if len(a) != len(b) or None in a or None in b:
        return
    if ours.workload.max_concurrency is not None or theirs.workload.max_concurrency is not None:
        return  # sent when others end: a result, not a setting
    apart_s = np.abs(np.sort(np.asarray(a, float)) - np.sort(np.asarray(b, float)))
    if apart_s.max() > _ARRIVAL_TOLERANCE_S:
        yield Difference(
            what="sending times",
            run=f"up to {apart_s.max():.3g} s apart, {apart_s.mean():.3g} s on average",
            real="as recorded",
            weight="flagged",
        )


def _difference(
    name: str,
    ours: Any,
    theirs: Any,
    read: Callable[[Any], Any] | None,
    weight: _Weight,
) -> Iterator[Difference]:
    if ours is None or theirs is None:
        return
    a, b = (ours, theirs) if read is None else (read(ours), read(theirs))
    if a != b:
        yield _said(name.replace("_", " "), a, b, weight)


def _said(what: str, ours: Any, theirs: Any, weight: _Weight) -> Difference:
    return Difference(what=what, run=_short(ours), real=_short(theirs), weight=weight)


def _short(value: Any) -> str:
    if isinstance(value, tuple):
        return f"{len(value)} sizes up to {max(value)}" if value else "none"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _count(run: Run) -> int | None:
    return len(run.requests) if run.requests else run.workload.num_requests


def _input_tokens(request: Request) -> int | None:
    return request.input_tokens


def _output_tokens(request: Request) -> int | None:
    return request.output_tokens

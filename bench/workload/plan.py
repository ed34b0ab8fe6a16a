"""Which request is sent when, of a workload and arrivals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from warpserve.bench.workload.arrivals import Arrival
from warpserve.bench.workload.request import Request, WorkloadError


@dataclass(frozen=True)
class Planned:
    """A request with its time."""

    request: Request
    arrival_s: float | None
    """From the start; None for a session's later turn."""


def plan(
    requests: Sequence[Request],
    arrival: Arrival,
    *,
    rate: float | None = None,
    rate_scale: float = 1.0,
    seed: int = 0,
) -> list[Planned]:
    """Times for all that follow no answer; a trace's own, ``rate_scale`` times as fast.

    Raises WorkloadError where they are to arrive as recorded, and nothing is recorded.
    """
    if not 0 < rate_scale < math.inf or (rate is not None and not rate > 0):
        raise WorkloadError(f"rate and rate_scale are more than 0, not {rate} and {rate_scale}")
    begun: set[str] = set()
    first = [_is_first(request, begun) for request in requests]
    if arrival.kind == "trace":
        times_s = iter(_recorded_s(requests, first, rate_scale))
    else:
        times_s = iter(arrival.times_s(sum(first), rate, seed))
    return [
        Planned(request, next(times_s) if is_first else None)
        for request, is_first in zip(requests, first, strict=True)
    ]


def _is_first(request: Request, begun: set[str]) -> bool:
    if request.session is None:
        return True
    is_first = request.session not in begun
    begun.add(request.session)
    return is_first


def _recorded_s(
    requests: Sequence[Request], first: Sequence[bool], rate_scale: float
) -> list[float]:
    starts = [request for request, is_first in zip(requests, first, strict=True) if is_first]
    recorded = [request.arrival_ns for request in starts]
    times_s = [at_ns / rate_scale / 1e9 for at_ns in recorded if at_ns is not None]
    if len(times_s) < len(recorded):
        missing = len(recorded) - len(times_s)
        raise WorkloadError(
            f"{missing} of {len(recorded)} requests have no recorded arrival: say another --arrival"
        )
    return times_s

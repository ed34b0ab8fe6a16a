"""The figures of a run."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from pydantic import BaseModel, ConfigDict

from warpserve.bench.config import RunConfig
from warpserve.bench.host_cost import ProcessCost
from warpserve.bench.results import RequestResult
from warpserve.timekeeper.state import SessionState

_PERCENTILES = (50, 90, 99)


class Spread(BaseModel):
    """Of one metric over the requests that have it, in ms."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    count: int
    mean_ms: float
    p50_ms: float
    p90_ms: float
    p99_ms: float

    @classmethod
    def of(cls, values_s: Sequence[float]) -> Spread | None:
        """None for no values."""
        if not values_s:
            return None
        values_ms = np.asarray(values_s) * 1e3
        p50, p90, p99 = np.percentile(values_ms, _PERCENTILES)
        mean = float(values_ms.mean())
        return cls(count=len(values_s), mean_ms=mean, p50_ms=p50, p90_ms=p90, p99_ms=p99)


class Serving(BaseModel):
    """What the host spent from the engine's first step to the end of the client."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    wall_s: float
    steps: int
    processes: list[ProcessCost]


class Summary(BaseModel):
    """Written as ``summary.json``; only ``host`` differs between runs of the same experiment."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    class Host(BaseModel):
        """What the run took of the host's time."""

        model_config = ConfigDict(extra="forbid", frozen=True)

        wall_s: float
        virtual_s: float
        advances: int
        warnings: dict[str, int]
        serving: Serving

    sent: int
    completed: int
    failed: int
    ttft: Spread | None
    tpot: Spread | None
    itl: Spread | None
    latency: Spread | None
    host: Host


def summarise(
    config: RunConfig, requests: Sequence[RequestResult], state: SessionState, serving: Serving
) -> Summary:
    failed = sum(request.error is not None for request in requests)
    return Summary(
        sent=config.num_requests,
        completed=len(requests) - failed,
        failed=failed,
        ttft=Spread.of([r.ttft_s for r in requests if r.ttft_s is not None]),
        tpot=Spread.of([r.tpot_s for r in requests if r.tpot_s is not None]),
        itl=Spread.of([itl_s for r in requests for itl_s in r.itl_s]),
        latency=Spread.of([r.latency_s for r in requests if r.latency_s is not None]),
        host=Summary.Host(
            wall_s=state.host_ns / 1e9,
            virtual_s=state.virtual_ns / 1e9,
            advances=state.advances,
            warnings=dict(state.warnings),
            serving=serving,
        ),
    )

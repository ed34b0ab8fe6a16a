"""The figures of a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from pydantic import BaseModel, ConfigDict

from warpserve.bench.host_cost import ProcessCost
from warpserve.bench.predictions import PredictedSteps
from warpserve.bench.results import Outcome, RequestResult
from warpserve.bench.run_folder import RunError
from warpserve.bench.workload import Planned
from warpserve.timekeeper.state import SessionState

_PERCENTILES = (50, 90, 99)
_LEAST_CPU_MS = 0.01
"""Of a step."""
_LEAST_BYTES = 100 << 20


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

    @property
    def noticeable_processes(self) -> list[ProcessCost]:
        """Those that take more than next to nothing of the processor or of the memory."""
        return [
            process
            for process in self.processes
            if process.cpu_s * 1e3 >= _LEAST_CPU_MS * max(1, self.steps)
            or process.resident_bytes >= _LEAST_BYTES
        ]


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
    """As many as were completed, rejected and failed."""
    completed: int
    rejected: int = 0
    """Refused by the server, as where a prompt is longer than the model's context."""
    failed: int
    not_sent: int = 0
    """Later turns of sessions whose turn before has no answer."""
    truncated: int = 0
    """Completed with fewer tokens than were asked for."""
    reasons: dict[str, int] = {}
    """What was said of those that were not completed."""
    ttft: Spread | None
    tpot: Spread | None
    itl: Spread | None
    latency: Spread | None
    predicted_steps: PredictedSteps
    host: Host

    @property
    def counts(self) -> str:
        """All of them in words, those that are 0 only where they always matter."""
        others = {
            "rejected": self.rejected,
            "not sent": self.not_sent,
            "truncated": self.truncated,
        }
        more = "".join(f", {count} {name}" for name, count in others.items() if count)
        return f"{self.completed} of {self.sent} requests completed, {self.failed} failed{more}"


def summarise(
    planned: Sequence[Planned],
    requests: Sequence[RequestResult],
    predicted_steps: PredictedSteps,
    state: SessionState,
    serving: Serving,
) -> Summary:
    """Raises RunError where the client does not tell of each request."""
    if len(requests) != len(planned):
        raise RunError(f"the client tells of {len(requests)} requests, and not of {len(planned)}")
    outcomes = Counter(request.outcome for request in requests)
    return Summary(
        sent=len(planned) - outcomes[Outcome.NOT_SENT],
        completed=outcomes[Outcome.COMPLETED],
        rejected=outcomes[Outcome.REJECTED],
        failed=outcomes[Outcome.FAILED],
        not_sent=outcomes[Outcome.NOT_SENT],
        truncated=sum(
            request.outcome is Outcome.COMPLETED
            and request.output_tokens < entry.request.output_tokens
            for entry, request in zip(planned, requests, strict=True)
        ),
        reasons=dict(Counter(r.error.splitlines()[-1] for r in requests if r.error)),
        ttft=Spread.of([r.ttft_s for r in requests if r.ttft_s is not None]),
        tpot=Spread.of([r.tpot_s for r in requests if r.tpot_s is not None]),
        itl=Spread.of([itl_s for r in requests for itl_s in r.itl_s]),
        latency=Spread.of([r.latency_s for r in requests if r.latency_s is not None]),
        predicted_steps=predicted_steps,
        host=Summary.Host(
            wall_s=state.host_ns / 1e9,
            virtual_s=state.virtual_ns / 1e9,
            advances=state.advances,
            warnings=dict(state.warnings),
            serving=serving,
        ),
    )

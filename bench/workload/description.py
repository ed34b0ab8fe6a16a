"""What a workload is like, in figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from pydantic import BaseModel, ConfigDict

from warpserve.bench.workload.plan import Planned

_PERCENTILES = (0, 50, 90, 99, 100)


class TokenSpread(BaseModel):
    """Of a number of tokens over the requests."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    mean: float
    min: int
    p50: float
    p90: float
    p99: float
    max: int

    @classmethod
    def of(cls, tokens: Sequence[int]) -> TokenSpread:
        low, p50, p90, p99, high = np.percentile(tokens, _PERCENTILES)
        mean = float(np.mean(tokens))
        return cls(mean=mean, min=int(low), p50=p50, p90=p90, p99=p99, max=int(high))


class Arrivals(BaseModel):
    """Of the requests that follow no answer."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    span_s: float
    """From the first to the last."""
    rate_per_s: float | None
    """Intervals over span; None where all come at once."""
    interval_variation: float | None
    """Standard deviation of the intervals over their mean; 1 for a Poisson process."""

    @classmethod
    def of(cls, times_s: Sequence[float]) -> Arrivals | None:
        """None for less than three."""
        if len(times_s) < 3:
            return None
        intervals_s = np.diff(times_s)
        span_s = float(times_s[-1] - times_s[0])
        if span_s == 0:
            return cls(span_s=0.0, rate_per_s=None, interval_variation=None)
        return cls(
            span_s=span_s,
            rate_per_s=len(intervals_s) / span_s,
            interval_variation=float(intervals_s.std() / intervals_s.mean()),
        )


class Description(BaseModel):
    """Printed by `warpserve workload NAME --json`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    workload: str
    requests: int
    sessions: int
    """Of more than one turn."""
    input_tokens: TokenSpread
    """Of whole prompts, conversations so far included."""
    output_tokens: TokenSpread
    shared_prefix_share: float | None
    """Of all input tokens, those that an unlimited prefix cache would have from requests before;
    None where the workload does not say what is shared."""
    arrivals: Arrivals | None


def describe(workload: str, planned: Sequence[Planned]) -> Description:
    """``planned``: one request at least."""
    inputs, _ = _input_tokens(planned)
    turns = Counter(e.request.session for e in planned if e.request.session is not None)
    return Description(
        workload=workload,
        requests=len(planned),
        sessions=sum(count > 1 for count in turns.values()),
        input_tokens=TokenSpread.of(inputs),
        output_tokens=TokenSpread.of([entry.request.output_tokens for entry in planned]),
        shared_prefix_share=_shared_share(planned),
        arrivals=Arrivals.of([e.arrival_s for e in planned if e.arrival_s is not None]),
    )


def _shared_share(planned: Sequence[Planned]) -> float | None:
    if not any(entry.request.segments or entry.request.session for entry in planned):
        return None
    inputs, known = _input_tokens(planned)
    return sum(known) / sum(inputs)


def _input_tokens(planned: Sequence[Planned]) -> tuple[list[int], list[int]]:
    """Of each prompt, and those at its beginning that were sent or answered before."""
    conversations: dict[str, int] = {}
    seen: set[int] = set()
    inputs, known = [], []
    for request in (entry.request for entry in planned):
        before = conversations.get(request.session or "", 0)
        inputs.append(before + request.input_tokens)
        if request.session is not None:
            conversations[request.session] = inputs[-1] + request.output_tokens
        for segment in request.segments:
            if segment.key not in seen:
                break
            before += segment.tokens
        known.append(before)
        seen |= {segment.key for segment in request.segments}
    return inputs, known

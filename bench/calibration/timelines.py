"""When the tokens of a real run's requests came, and who was under way meanwhile."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from warpserve.bench.real.metrics import begin_s
from warpserve.bench.real.schema import Request, Run
from warpserve.bench.run_folder import RunError

_MOST_INTERVALS = 64
"""Of one request: evenly spread over its tokens."""


class Timeline(NamedTuple):
    """One completed request."""

    begin_s: float
    token_s: list[float]
    """When each token came."""
    has_all_tokens: bool
    """Their times were measured; or else all but the first and the last are spread evenly."""
    has_chunks: bool
    """Several tokens came at once: it is not known how many steps there were."""
    input_tokens: int
    cached_tokens: int

    @property
    def skipped_tokens(self) -> int:
        """Of the prompt, the last token of which is always computed."""
        return min(self.cached_tokens, self.input_tokens - 1)

    @property
    def ttft_s(self) -> float:
        return self.token_s[0] - self.begin_s

    def intervals(self) -> list[tuple[float, float]]:
        found = list(pairwise(self.token_s))
        return found[:: max(1, -(-len(found) // _MOST_INTERVALS))]

    def context_at(self, time_s: float) -> int | None:
        """With the token that is computed; None before the first token and after the last."""
        if not self.token_s[0] < time_s < self.token_s[-1]:
            return None
        return self.input_tokens + bisect_right(self.token_s, time_s)

    def is_under_way(self, other: Timeline) -> bool:
        """Between the begin of ``other`` and its first token."""
        return self.begin_s <= other.token_s[0] and other.begin_s <= self.token_s[-1]


class Waits:
    """When any request waits for its first token."""

    def __init__(self, timelines: Sequence[Timeline]) -> None:
        self._begins_s = sorted(each.begin_s for each in timelines)
        self._firsts_s = sorted(each.token_s[0] for each in timelines)

    def overlap(self, begin_s: float, end_s: float) -> bool:
        """Whether there are more begins before the end than first tokens until the begin."""
        begun = bisect_left(self._begins_s, end_s)
        return begun > bisect_right(self._firsts_s, begin_s)


def timelines_of(run: Run) -> list[Timeline]:
    """Of the completed requests. Raises RunError where it is not known when they were sent."""
    is_alone = run.workload.max_concurrency == 1
    timelines = []
    next_s = 0.0
    for request in run.completed:
        start_s = begin_s(run, request)
        if start_s is None and is_alone:
            start_s = next_s
        if start_s is None:
            raise RunError(
                "the run does not say when its requests were sent: who decodes beside "
                "whom is unknown, unless they are sent one by one (max_concurrency 1)"
            )
        token_s = _token_instants_s(request, start_s)
        if token_s and request.input_tokens:
            cached = request.cached_tokens or 0
            pieces = None if request.itl_s is None else len(request.itl_s) + 1
            timelines.append(
                Timeline(
                    start_s,
                    token_s,
                    has_all_tokens=pieces == len(token_s),
                    has_chunks=pieces is not None and pieces < len(token_s),
                    input_tokens=request.input_tokens,
                    cached_tokens=cached,
                )
            )
            next_s = token_s[-1] + 1.0
    if not timelines:
        raise RunError("the run has no completed requests with their times: nothing to fit to")
    return timelines


def _token_instants_s(request: Request, start_s: float) -> list[float]:
    """Evenly spread, where chunks of several tokens came or only the last token's time is known."""
    if request.ttft_s is None or request.latency_s is None or not request.output_tokens:
        return []
    count, first_s = request.output_tokens, start_s + request.ttft_s
    if request.itl_s is not None and len(request.itl_s) == count - 1:
        instants_s = [first_s]
        for itl_s in request.itl_s:
            instants_s.append(instants_s[-1] + itl_s)
        return instants_s
    between_s = (request.latency_s - request.ttft_s) / max(1, count - 1)
    return [first_s + index * between_s for index in range(count)]

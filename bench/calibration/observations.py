"""What a real run says of steps, beside what a predictor says of the same steps.

A recording (`warpserve record`) has the steps themselves. The requests of a client tell less: of
the time from one token to the next it is known who else was decoding, and with which context. Such
an interval is one step, unless somebody waited for a first token in it: then prefills may have been
in its steps, and it is left out.
"""

from __future__ import annotations

import statistics
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from warpserve.bench.real.metrics import begin_s
from warpserve.bench.real.schema import Request, Run
from warpserve.bench.run_folder import RunError
from warpserve.predictors.batch import Batch, RequestStep
from warpserve.predictors.captured import SIZES
from warpserve.predictors.predictor import Predictor
from warpserve.predictors.replay import RecordedStep, recorded_steps

_MOST_INTERVALS = 64
"""Of one request: evenly spread over its tokens."""
_SURE_BUDGET = 2048
"""Prompt tokens that every engine's default lets into one step."""


class Observation(NamedTuple):
    """A step, or alike steps together."""

    requests: int
    """Under way."""
    predicted_ns: float
    measured_ns: float


class FirstToken(NamedTuple):
    """A request that had the engine for itself until its first token."""

    steps: int
    predicted_ns: float
    measured_ns: float
    """TTFT."""


def of_recording(folder: Path, predictor: Predictor) -> list[Observation]:
    """Of each step the time until the next one, where the next one goes on with its requests.

    That has the host's part in it. Raises PredictorError for a log that is none.
    """
    steps = recorded_steps(str(folder))
    return [
        Observation(
            len(step.batch.requests),
            predictor.predict(step.batch).duration_ns,
            _period_ns(step, following),
        )
        for step, following in pairwise(steps)
        if following.start_ns >= step.start_ns
    ]


def of_tokens(run: Run, predictor: Predictor) -> list[Observation]:
    """Of each request's intervals between tokens: medians, by the number of requests under way.

    Raises RunError where the run does not say enough to know who was decoding when.
    """
    timelines = _timelines(run)
    waits = _Waits(timelines)
    sizes = run.deployment.cuda_graph_sizes

    def decodes_at(time_s: float) -> Batch:
        contexts = [c for each in timelines if (c := each.context_at(time_s)) is not None]
        return _decodes(contexts, sizes)

    observations = []
    for mine in timelines:
        find = _of_each_interval if mine.has_all_tokens else _of_the_whole
        observations += find(mine, waits, decodes_at, predictor)
    return observations


def of_first_tokens(run: Run, predictor: Predictor) -> list[FirstToken]:
    """Of the requests that came while nothing else was under way, in their order.

    Those whose prompt an unknown token budget may have cut into chunks are left out.
    """
    timelines = _timelines(run)
    budget = run.deployment.max_num_batched_tokens
    return [
        FirstToken(len(chunks), sum(predictor.predict(chunk).duration_ns for chunk in chunks), ns)
        for mine in timelines
        if (chunks := _chunks(mine, budget)) and (ns := mine.ttft_s * 1e9) > 0
        if not any(other is not mine and other.is_under_way(mine) for other in timelines)
    ]


class _Timeline(NamedTuple):
    """One completed request."""

    begin_s: float
    token_s: list[float]
    """When each token came."""
    has_all_tokens: bool
    """Their times were measured; or else all but the first and the last are spread evenly."""
    input_tokens: int
    cached_tokens: int

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

    def is_under_way(self, other: _Timeline) -> bool:
        """Between the begin of ``other`` and its first token."""
        return self.begin_s <= other.token_s[0] and other.begin_s <= self.token_s[-1]


class _Waits:
    """When any request waits for its first token."""

    def __init__(self, timelines: Sequence[_Timeline]) -> None:
        self._begins_s = sorted(each.begin_s for each in timelines)
        self._firsts_s = sorted(each.token_s[0] for each in timelines)

    def overlap(self, begin_s: float, end_s: float) -> bool:
        """Whether there are more begins before the end than first tokens until the begin."""
        begun = bisect_left(self._begins_s, end_s)
        return begun > bisect_right(self._firsts_s, begin_s)


_DecodesAt = Callable[[float], Batch]


def _of_each_interval(
    mine: _Timeline, waits: _Waits, decodes_at: _DecodesAt, predictor: Predictor
) -> list[Observation]:
    found: dict[int, list[tuple[float, float]]] = defaultdict(list)
    for start_s, end_s in mine.intervals():
        if not waits.overlap(start_s, end_s):
            batch = decodes_at((start_s + end_s) / 2)
            pair = predictor.predict(batch).duration_ns, (end_s - start_s) * 1e9
            found[len(batch.requests)].append(pair)
    return [
        Observation(requests, *(statistics.median(values) for values in zip(*pairs, strict=True)))
        for requests, pairs in sorted(found.items())
    ]


def _of_the_whole(
    mine: _Timeline, waits: _Waits, decodes_at: _DecodesAt, predictor: Predictor
) -> list[Observation]:
    """Where only the first and the last token are known, nobody may have waited in between."""
    if len(mine.token_s) < 2 or waits.overlap(mine.token_s[0], mine.token_s[-1]):
        return []
    intervals = mine.intervals()
    batches = [decodes_at((start_s + end_s) / 2) for start_s, end_s in intervals]
    predicted_ns = statistics.mean(predictor.predict(batch).duration_ns for batch in batches)
    measured_ns = (mine.token_s[-1] - mine.token_s[0]) / (len(mine.token_s) - 1) * 1e9
    requests = max(len(batch.requests) for batch in batches)
    return [Observation(requests, predicted_ns, measured_ns)]


def _timelines(run: Run) -> list[_Timeline]:
    """Raises RunError."""
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
            is_measured = len(request.itl_s or ()) == len(token_s) - 1
            timelines.append(_Timeline(start_s, token_s, is_measured, request.input_tokens, cached))
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


def _decodes(contexts: Sequence[int], graph_sizes: Sequence[int] | None) -> Batch:
    requests = tuple(RequestStep(1, context - 1, is_prefill=False) for context in contexts)
    return Batch(requests, _padded(len(requests), graph_sizes))


def _chunks(request: _Timeline, budget: int | None) -> list[Batch]:
    """The prompt's steps; none where it is not known how many there are."""
    if budget is None and request.input_tokens > _SURE_BUDGET:
        return []
    return list(_chunks_of(request, budget or _SURE_BUDGET))


def _chunks_of(request: _Timeline, budget: int) -> Iterator[Batch]:
    for done in range(
        min(request.cached_tokens, request.input_tokens - 1), request.input_tokens, budget
    ):
        new = min(budget, request.input_tokens - done)
        yield Batch((RequestStep(new, done, is_prefill=True),), _padded(new, None))


def _padded(tokens: int, graph_sizes: Sequence[int] | None) -> int:
    """``graph_sizes``: None where they are not known: vLLM's defaults."""
    sizes = SIZES if graph_sizes is None else sorted(graph_sizes)
    index = bisect_left(sizes, tokens)
    return sizes[index] if index < len(sizes) else tokens


def _period_ns(step: RecordedStep, following: RecordedStep) -> float:
    goes_on = not step.request_ids.isdisjoint(following.request_ids)
    return following.start_ns - step.start_ns if goes_on else step.prediction.duration_ns

"""What a real run says of steps, beside what a predictor says of the same steps.

A recording (`warpserve record`) has the steps themselves. The requests of a client tell less: of
the time from one token to the next it is known who else was decoding, and with which context. Such
an interval is one step, unless somebody waited for a first token in it: then prefills may have been
in its steps, and prefills.py decides.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from warpserve.bench.calibration.timelines import Timeline, Waits, timelines_of
from warpserve.bench.real.schema import Deployment, Run
from warpserve.bench.real.sglang_graphs import graph_sizes
from warpserve.predictors.batch import Batch, RequestStep
from warpserve.predictors.captured import SGLANG_PREFILL_SIZES, SIZES, padded_tokens
from warpserve.predictors.predictor import Predictor
from warpserve.predictors.prefills import added_by_prefills_ns
from warpserve.predictors.replay import RecordedStep

SURE_BUDGET_TOKENS = 2048
"""Of a step, that every engine's default lets into it."""


class Observation(NamedTuple):
    """A step, or alike steps together."""

    requests: int
    """Under way."""
    predicted_ns: float
    measured_ns: float
    added_ns: float = 0.0
    """Of `predicted_ns`, what prefills add."""


class FirstToken(NamedTuple):
    """A request that had the engine for itself until its first token."""

    steps: int
    predicted_ns: float
    measured_ns: float
    """TTFT."""
    prompt_tokens: int


class EagerStep(NamedTuple):
    """One whose kernels were launched one by one."""

    gpu_ns: float
    """As predicted, without what launches take."""
    measured_ns: float


def of_recording(steps: Sequence[RecordedStep], predictor: Predictor) -> list[Observation]:
    """Of each step the time until the next one, where the next one goes on with its requests.

    That has the host's part in it. Eager steps are left out, unless all are: launches decide on
    them, and not the GPU.
    """
    are_all_eager = all(step.batch.is_eager for step in steps)
    return [
        of_step(step.batch, _period_ns(step, following), predictor)
        for step, following in pairwise(steps)
        if following.start_ns >= step.start_ns and (are_all_eager or not step.batch.is_eager)
    ]


def of_step(batch: Batch, measured_ns: float, predictor: Predictor) -> Observation:
    predicted_ns = predictor.predict(batch).duration_ns
    added_ns = added_by_prefills_ns(predictor, batch, predicted_ns)
    return Observation(len(batch.requests), predicted_ns, measured_ns, added_ns)


def of_eager_steps(steps: Sequence[RecordedStep], without_launches: Predictor) -> list[EagerStep]:
    return [
        EagerStep(without_launches.predict(step.batch).duration_ns, step.prediction.duration_ns)
        for step in steps
        if step.batch.is_eager
    ]


def of_tokens(run: Run, predictor: Predictor) -> list[Observation]:
    """Of each request's intervals between tokens: medians, by the number of requests under way.

    Raises RunError where the run does not say enough to know who was decoding when.
    """
    timelines = timelines_of(run)
    waits = Waits(timelines)
    known_sizes = run.deployment.cuda_graph_sizes
    sizes = SIZES if known_sizes is None else sorted(known_sizes)

    def decodes_at(time_s: float) -> Batch:
        contexts = [c for each in timelines if (c := each.context_at(time_s)) is not None]
        return decodes(contexts, sizes)

    observations = []
    for mine in timelines:
        if mine.has_chunks:
            continue
        find = _of_each_interval if mine.has_all_tokens else _of_the_whole
        observations += find(mine, waits, decodes_at, predictor)
    return observations


def of_first_tokens(run: Run, predictor: Predictor) -> list[FirstToken]:
    """Of the requests that came while nothing else was under way, in their order.

    Those whose prompt an unknown token budget may have cut into chunks are left out.
    """
    timelines = timelines_of(run)
    budget = run.deployment.max_num_batched_tokens
    sizes = prefill_sizes(run.deployment)
    return [
        FirstToken(
            len(chunks),
            sum(predictor.predict(chunk).duration_ns for chunk in chunks),
            ns,
            mine.input_tokens,
        )
        for mine in timelines
        if (chunks := _chunks(mine, budget, sizes)) and (ns := mine.ttft_s * 1e9) > 0
        if not any(other is not mine and other.is_under_way(mine) for other in timelines)
    ]


_DecodesAt = Callable[[float], Batch]


def _of_each_interval(
    mine: Timeline, waits: Waits, decodes_at: _DecodesAt, predictor: Predictor
) -> list[Observation]:
    """Of those that have a length: tokens that came at once tell of no step."""
    found: dict[int, list[tuple[float, float]]] = defaultdict(list)
    for start_s, end_s in mine.intervals():
        if start_s < end_s and not waits.overlap(start_s, end_s):
            batch = decodes_at((start_s + end_s) / 2)
            pair = predictor.predict(batch).duration_ns, (end_s - start_s) * 1e9
            found[len(batch.requests)].append(pair)
    return [
        Observation(requests, *(statistics.median(values) for values in zip(*pairs, strict=True)))
        for requests, pairs in sorted(found.items())
    ]


def _of_the_whole(
    mine: Timeline, waits: Waits, decodes_at: _DecodesAt, predictor: Predictor
) -> list[Observation]:
    """Where only the first and the last token are known, nobody may have waited in between."""
    first_s, last_s = mine.token_s[0], mine.token_s[-1]
    if last_s <= first_s or waits.overlap(first_s, last_s):
        return []
    intervals = mine.intervals()
    batches = [decodes_at((start_s + end_s) / 2) for start_s, end_s in intervals]
    predicted_ns = statistics.mean(predictor.predict(batch).duration_ns for batch in batches)
    measured_ns = (last_s - first_s) / (len(mine.token_s) - 1) * 1e9
    requests = max(len(batch.requests) for batch in batches)
    return [Observation(requests, predicted_ns, measured_ns)]


def decodes(contexts: Sequence[int], graph_sizes: Sequence[int] = SIZES) -> Batch:
    """A step of decodes alone, with these contexts, new tokens among them."""
    requests = tuple(RequestStep(1, context - 1, is_prefill=False) for context in contexts)
    return Batch(requests, padded_tokens(len(requests), graph_sizes))


def prefill_sizes(deployment: Deployment) -> Sequence[int]:
    """Tokens that steps with prefills are padded to, in order."""
    if deployment.engine == "sglang":
        said = graph_sizes(deployment.arguments, "prefill")
        return SGLANG_PREFILL_SIZES if said is None else said
    sizes = deployment.cuda_graph_sizes
    return SIZES if sizes is None else sorted(sizes)


def _chunks(request: Timeline, budget: int | None, sizes: Sequence[int]) -> list[Batch]:
    """The prompt's steps; none where it is not known how many there are."""
    if budget is None and request.input_tokens > SURE_BUDGET_TOKENS:
        return []
    return list(_chunks_of(request, budget or SURE_BUDGET_TOKENS, sizes))


def _chunks_of(request: Timeline, budget: int, sizes: Sequence[int]) -> Iterator[Batch]:
    for done in range(request.skipped_tokens, request.input_tokens, budget):
        new = min(budget, request.input_tokens - done)
        yield Batch((RequestStep(new, done, is_prefill=True),), padded_tokens(new, sizes))


def _period_ns(step: RecordedStep, following: RecordedStep) -> float:
    goes_on = not step.request_ids.isdisjoint(following.request_ids)
    return following.start_ns - step.start_ns if goes_on else step.prediction.duration_ns

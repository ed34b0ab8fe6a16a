"""Steps with prefills, seen by a client: by who decodes meanwhile.

vLLM computes prompts in the steps of decodes. So if a request gets its first token together with a
token of another one, the time since that one's token before is one step: of all who decode, and of
the prompts whose first tokens have come. SGLang's prefills have steps of their own, which begin
when those who decode got a token, and end with first tokens. No frontend is in either, as there is
in a TTFT.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from warpserve.bench.calibration.observations import (
    SURE_BUDGET_TOKENS,
    Observation,
    of_step,
    prefill_sizes,
)
from warpserve.bench.calibration.timelines import Timeline, timelines_of
from warpserve.bench.real.schema import Run
from warpserve.predictors.batch import Batch, RequestStep
from warpserve.predictors.captured import padded_tokens
from warpserve.predictors.predictor import Predictor

_TOGETHER = 0.05
"""Of a step: tokens of one step reach their clients that near to each other."""


class Step(NamedTuple):
    before_s: float
    """When the step before it began."""
    start_s: float
    end_s: float
    decodes: tuple[RequestStep, ...]

    @property
    def duration_s(self) -> float:
        return self.end_s - self.start_s

    def ends_at(self, instant_s: float) -> bool:
        return abs(self.end_s - instant_s) <= _TOGETHER * self.duration_s


def of_prefills(run: Run, predictor: Predictor) -> list[Observation]:
    """Each step with prefills whose requests are known, in their order.

    Raises RunError where it is not known when requests were sent.
    """
    sizes = prefill_sizes(run.deployment)
    return [
        of_step(_batch(step, firsts, sizes), step.duration_s * 1e9, predictor)
        for step, firsts in steps_with_prompts(run)
    ]


def steps_with_prompts(run: Run) -> Iterator[tuple[Step, list[Timeline]]]:
    """In their order, with the requests whose whole prompts were in them.

    Left out are steps in which a prompt may have been cut into chunks. Raises RunError.
    """
    timelines = sorted(timelines_of(run), key=lambda each: each.token_s[0])
    step_at = _own_step if run.deployment.engine == "sglang" else _mixed_step
    budget_tokens = run.deployment.max_num_batched_tokens or SURE_BUDGET_TOKENS
    last_end_s = float("-inf")
    for first in timelines:
        step = step_at(timelines, first.token_s[0])
        if step is None or first.token_s[0] <= last_end_s:
            continue
        firsts = [each for each in timelines if step.ends_at(each.token_s[0])]
        last_end_s = firsts[-1].token_s[0]
        tokens = _asked_tokens(timelines, step) + len(step.decodes) + len(firsts)
        if tokens <= budget_tokens and all(each.begin_s < step.start_s for each in firsts):
            yield step, firsts


def _mixed_step(timelines: Sequence[Timeline], instant_s: float) -> Step | None:
    """That ended with a first token at that instant, and with tokens of others."""
    steps = [step for each in timelines if (step := _interval_to(instant_s, each)) is not None]
    if not steps:
        return None
    median = sorted(steps, key=lambda step: step.duration_s)[len(steps) // 2]
    middle_s = (median.start_s + median.end_s) / 2
    contexts = [c for each in timelines if (c := each.context_at(middle_s)) is not None]
    return median._replace(decodes=tuple(RequestStep(1, c - 1, is_prefill=False) for c in contexts))


def _interval_to(instant_s: float, timeline: Timeline) -> Step | None:
    """From a token to the next, which came at that instant."""
    if not timeline.has_all_tokens:
        return None
    index = bisect_left(timeline.token_s, instant_s)
    for end in (index, index - 1):
        if 2 <= end < len(timeline.token_s):
            before_s, start_s, end_s = timeline.token_s[end - 2 : end + 1]
            step = Step(before_s, start_s, end_s, ())
            if step.duration_s > 0 and step.ends_at(instant_s):
                return step
    return None


def _own_step(timelines: Sequence[Timeline], instant_s: float) -> Step | None:
    """Of prefills alone, that ended at that instant, while others waited to decode on."""
    around = [tokens_s for each in timelines if (tokens_s := _tokens_around(each, instant_s))]
    if not around:
        return None
    before_s, start_s, _ = max(around, key=lambda tokens_s: tokens_s[1])
    step = Step(before_s, start_s, instant_s, ())
    is_mixed = any(step.ends_at(next_s) for *_, next_s in around)
    is_mixed |= step.duration_s <= _TOGETHER * (start_s - before_s)
    return None if is_mixed else step


def _tokens_around(timeline: Timeline, instant_s: float) -> tuple[float, float, float] | None:
    """Of a request that decodes then: the last two tokens before, and the next one."""
    if not timeline.has_all_tokens or not timeline.token_s[0] < instant_s < timeline.token_s[-1]:
        return None
    index = bisect_left(timeline.token_s, instant_s)
    before_s = timeline.token_s[index - 2] if index >= 2 else timeline.begin_s
    return before_s, timeline.token_s[index - 1], timeline.token_s[index]


def _batch(step: Step, firsts: Sequence[Timeline], sizes: Sequence[int]) -> Batch:
    prefills = [
        RequestStep(each.input_tokens - each.skipped_tokens, each.skipped_tokens, is_prefill=True)
        for each in firsts
    ]
    requests = (*step.decodes, *prefills)
    return Batch(requests, padded_tokens(sum(each.new_tokens for each in requests), sizes))


def _asked_tokens(timelines: Sequence[Timeline], step: Step) -> int:
    """Of all prompts that wait at any time of the step or of the one before: where a budget lets
    them in together, none is cut.
    """
    return sum(
        each.input_tokens
        for each in timelines
        if each.begin_s < step.end_s and each.token_s[0] > step.before_s
    )

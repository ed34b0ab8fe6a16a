"""How long requests are on their way to the scheduler, by the steps that they got into.

vLLM takes into a step who has come when it schedules it: at its start, or at that of the step
before if it schedules ahead. So a request whose prompt was in a step and not in the one before had
come in between. Where steps are seen by those who decode meanwhile, each request gives such a span,
and the time that lies in most of them is what HTTP, tokenising and the way back take. No predictor
is asked.
"""

from __future__ import annotations

import statistics
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from packaging.version import InvalidVersion, Version

from warpserve.bench.calibration.fitting import Line, fit_frontend, rests
from warpserve.bench.calibration.observations import FirstToken
from warpserve.bench.calibration.prefills import steps_with_prompts
from warpserve.bench.calibration.timelines import Timeline, timelines_of
from warpserve.bench.real.schema import Deployment, Run
from warpserve.predictors.spec import Frontend

_AHEAD_SINCE = Version("0.14")
"""vLLM schedules a step while the one before runs, unless ``--no-async-scheduling`` says no."""
_FEWEST = 5
_AGREEING = 0.8
"""Of the spans: else it is not one time for all requests."""
_SLOPES_NS = tuple(100 * hundreds for hundreds in range(201))
"""Of a token of a prompt: up to 20 us."""
_BETTER = 0.05
"""More of the spans agree with a slope, or there is none."""


class Span(NamedTuple):
    """The time is more than ``above_s``, and no more than ``most_s``."""

    above_s: float
    most_s: float
    prompt_tokens: int = 0

    def without(self, token_ns: int) -> Span:
        """With nothing left that each token of the prompt takes."""
        less_s = 1e-9 * token_ns * self.prompt_tokens
        return self._replace(above_s=self.above_s - less_s, most_s=self.most_s - less_s)

    def has(self, instant_s: float) -> bool:
        return self.above_s <= instant_s < self.most_s


class FoundFrontend(NamedTuple):
    found: Frontend | None
    fitted_on: str
    """In words."""
    why_unknown: str = ""


def frontend_of(run: Run, first_tokens: Sequence[FirstToken], line: Line) -> FoundFrontend:
    """By first tokens of requests alone, or by the steps that prompts got into where few were."""
    of_alone = rests(first_tokens, line)
    if len(of_alone) < _FEWEST and run.requests:
        found = fit_spans(spans_of(run))
        if found is not None:
            return FoundFrontend(found, "which steps prompts got into")
    fitted_on = f"{len(of_alone):,} first tokens of requests alone"
    if not of_alone:
        return FoundFrontend(None, fitted_on, "none was alone, nor seen to get into a step")
    median_ns = statistics.median(rest.ns for rest in of_alone)
    if median_ns >= 0:
        return FoundFrontend(fit_frontend(of_alone), fitted_on)
    why = (
        f"first tokens came {-median_ns / 1e6:.2f} ms sooner than their steps take; "
        "the prefix cache had them, or the predictor is too slow for prefills"
    )
    return FoundFrontend(None, fitted_on, why)


def fit_spans(spans: Sequence[Span]) -> Frontend | None:
    """The middle of what is left to a request by most spans, and what each token of a prompt takes,
    if more agree then. None where too few agree.
    """
    if len(spans) < _FEWEST:
        return None
    agreeing = {slope_ns: _agreeing(spans, slope_ns) for slope_ns in _SLOPES_NS}
    most = max(agreeing.values())
    token_ns = statistics.median_low([ns for ns, count in agreeing.items() if count == most])
    if most < agreeing[0] + _BETTER * len(spans):
        token_ns = 0
    if agreeing[token_ns] < _AGREEING * len(spans):
        return None
    agreed = in_most([span.without(token_ns) for span in spans])
    return Frontend(round(5e8 * (agreed.above_s + agreed.most_s)), token_ns)


def _agreeing(spans: Sequence[Span], token_ns: int) -> int:
    shorter = [span.without(token_ns) for span in spans]
    instant_s = in_most(shorter).above_s
    return sum(span.has(instant_s) for span in shorter)


def in_most(spans: Sequence[Span]) -> Span:
    """What lies in the most of them. ``spans``: one or more."""
    begins = sorted(max(0.0, span.above_s) for span in spans)
    ends = sorted(span.most_s for span in spans)

    def overlapping(instant_s: float) -> int:
        return bisect_right(begins, instant_s) - bisect_right(ends, instant_s)

    begin_s = max(begins, key=overlapping)
    return Span(begin_s, next((end_s for end_s in ends if end_s > begin_s), begin_s))


def spans_of(run: Run) -> list[Span]:
    """None of SGLang, nor of pipelines. Raises RunError where it is not known when requests were
    sent.
    """
    steps_ahead = _steps_ahead(run.deployment)
    return [] if steps_ahead is None else list(_spans(run, steps_ahead))


def _steps_ahead(deployment: Deployment) -> int | None:
    """Of a step's start, when it is scheduled; None where that is not known."""
    if deployment.engine != "vllm" or deployment.pipeline_parallel not in (None, 1):
        return None
    said = deployment.arguments.get("async_scheduling")
    if said is not None:
        return int(bool(said))
    try:
        return int(Version(deployment.engine_version or "") >= _AHEAD_SINCE)
    except InvalidVersion:
        return None


def _spans(run: Run, steps_ahead: int) -> Iterator[Span]:
    timelines = timelines_of(run)
    for step, firsts in steps_with_prompts(run):
        scheduled = _scheduled_s(timelines, step.end_s, steps_ahead)
        if scheduled is None:
            continue
        for first in firsts:
            before_s, at_s = (instant_s - first.begin_s for instant_s in scheduled)
            if at_s > 0:
                yield Span(before_s, at_s, first.input_tokens)


def _scheduled_s(
    timelines: Sequence[Timeline], end_s: float, steps_ahead: int
) -> tuple[float, float] | None:
    """When the step before was, and when the one was that ended at ``end_s``."""
    for each in timelines:
        index = bisect_left(each.token_s, end_s)
        before = index - 2 - steps_ahead
        if before >= 0 and index < len(each.token_s) and each.token_s[index] == end_s:
            return each.token_s[before], each.token_s[before + 1]
    return None

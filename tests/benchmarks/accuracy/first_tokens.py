"""Steps with prefills, beside what predictors say: from the instants of first tokens.

Where all requests that are scheduled at one instant have their first token at one later instant,
and nobody else has any in between, the time between is that of the step with their prefills, or of
the one before it, of decodes alone, and this one: engines schedule a step while another one runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
from pathlib import Path
from typing import NamedTuple

from tests.benchmarks.accuracy.cases import Case
from tests.benchmarks.accuracy.excess import Step, excess_table
from tests.benchmarks.predictors.real_runs import context_at, token_instants_s
from warpserve.bench.calibration.observations import decodes
from warpserve.bench.real.read import read_run
from warpserve.bench.real.schema import Request
from warpserve.predictors.batch import Batch, RequestStep
from warpserve.predictors.captured import padded_tokens
from warpserve.predictors.predictor import Predictor

_AT_ONCE_S = 1e-4
_NEAR = 0.2
"""Of the predicted: further off it was another step."""
_BUDGET_TOKENS = 2048
"""Of both runs: what goes into one step."""
_UP_TO = (512, 768, 1024, 1280, 1536, 2048)
"""Tokens of a row."""


class Prefilled(NamedTuple):
    """What is known of one step with prefills."""

    scheduled_s: float
    first_s: float
    prefills: tuple[int, ...]
    """Tokens of each."""
    contexts: tuple[int, ...]
    """Of those that decode meanwhile."""

    @property
    def tokens(self) -> int:
        return sum(self.prefills) + len(self.contexts)

    @property
    def batch(self) -> Batch:
        prefills = [RequestStep(tokens, 0, is_prefill=True) for tokens in self.prefills]
        steps = (*decodes(list(self.contexts)).requests, *prefills)
        return Batch(steps, padded_tokens(self.tokens))


def prefilled(folder: Path) -> Iterator[Prefilled]:
    """The run's steps with prefills of which all is known."""
    requests = read_run(folder).requests
    by_first = sorted(requests, key=_first_s)
    instants = [(first_s, tuple(group)) for first_s, group in groupby(by_first, _first_s)]
    for (earlier_s, _), (first_s, group) in pairwise(instants):
        scheduled_s = _scheduled_s(group[0])
        together = all(_is_at_once(_scheduled_s(each), scheduled_s) for each in group)
        if together and earlier_s < scheduled_s + _AT_ONCE_S:
            step = _step(requests, group, scheduled_s, first_s)
            if step is not None:
                yield step


def _step(
    requests: Sequence[Request], group: Sequence[Request], scheduled_s: float, first_s: float
) -> Prefilled | None:
    """None where another request's prefill may be in it, or somebody ended meanwhile."""
    for each in requests:
        its_first_s, its_last_s = token_instants_s(each)
        is_chunked = _scheduled_s(each) < scheduled_s + _AT_ONCE_S and its_first_s > first_s
        if is_chunked or scheduled_s + _AT_ONCE_S < its_last_s < first_s:
            return None
    found = [context_at(each, scheduled_s + _AT_ONCE_S) for each in requests]
    contexts = tuple(context for context in found if context is not None)
    step = Prefilled(
        scheduled_s, first_s, tuple(each.input_tokens or 0 for each in group), contexts
    )
    return step if contexts and step.tokens <= _BUDGET_TOKENS else None


def steps(found: Sequence[Prefilled], predictor: Predictor) -> Iterator[Step]:
    """Their measured time is less the predicted time of a step before, where there was one."""
    for each in found:
        window_ms = (each.first_s - each.scheduled_s) * 1e3
        before_ms = predictor.predict(decodes(list(each.contexts))).duration_ns / 1e6
        predicted_ms = predictor.predict(each.batch).duration_ns / 1e6
        either_ms = (window_ms, window_ms - before_ms)
        measured_ms = min(either_ms, key=lambda found_ms: abs(found_ms - predicted_ms))
        if abs(measured_ms / predicted_ms - 1) < _NEAR:
            yield Step(each.tokens, measured_ms, predicted_ms)


def markdown() -> Iterator[str]:
    def steps_of(case: Case, predictor: Predictor) -> Iterator[Step]:
        return steps(list(prefilled(case.real)), predictor)

    return excess_table(_UP_TO, steps_of, digits=0)


def _first_s(request: Request) -> float:
    """Requests of one step have theirs within microseconds."""
    return round(token_instants_s(request)[0], 5)


def _scheduled_s(request: Request) -> float:
    assert request.scheduled_s is not None
    return request.scheduled_s


def _is_at_once(one_s: float, other_s: float) -> bool:
    return abs(one_s - other_s) < _AT_ONCE_S

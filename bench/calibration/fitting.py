"""``measured = scale x predicted + host``, from observations at low concurrency.

What prefills add to a step has a scale of its own: they keep the GPU's multipliers busy, where
decodes wait for memory.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

from warpserve.bench.calibration.observations import EagerStep, FirstToken, Observation
from warpserve.bench.run_folder import RunError
from warpserve.predictors.spec import Frontend

_SPREAD_OF_SCALES = 0.05
"""How near to 1 a scale is before anything is measured."""
_NOISE = 0.03
"""Of points of which nothing is known."""
_LEAST_NOISE = 0.005
_MEDIANS_IN_NOISE = 1.48
"""A normal deviation, in medians of absolute errors."""
_FAR = 4.0
"""Times the noise: a pause of the host, not a step."""
_ROUNDS = 4
_FEWEST = 5
_MOSTLY = 0.5
"""Of a step that prefills add to."""
_LEAST_OF_A_GPU = 0.4
"""Of what a predictor says of prefills."""
_APART_TOKENS = 256
"""Prompts that are nearer to each other tell of the host's noise alone."""
_FEWEST_PAIRS = 20
_BOUND = 1.25
"""Times what the GPU takes: of a step that waits for its launches."""


class Line(NamedTuple):
    scale: float
    host_ns: float
    prefill_scale: float | None = None
    """Of what prefills add; None: as `scale`."""

    def at(self, predicted_ns: float, added_ns: float = 0.0) -> float:
        """``added_ns``: of ``predicted_ns``, by prefills."""
        more = 0.0 if self.prefill_scale is None else self.prefill_scale - self.scale
        return self.scale * predicted_ns + more * added_ns + self.host_ns

    def of(self, observation: Observation) -> float:
        return self.at(observation.predicted_ns, observation.added_ns)


class Split(NamedTuple):
    known: list[Observation]
    """Fitted on."""
    others: list[Observation]
    """Held out."""
    what: str
    """The others, in words."""


def split(observations: Sequence[Observation], most_requests: int) -> Split:
    """By the number of requests under way; by time where no more than so many ever were.

    Raises RunError for too few to fit to.
    """
    known = [each for each in observations if each.requests <= most_requests]
    others = [each for each in observations if each.requests > most_requests]
    what = f"more than {most_requests} requests under way"
    if not others:
        kinds = [
            [e for e in known if bool(e.added_ns) is has_prefill] for has_prefill in (False, True)
        ]
        known = [each for kind in kinds for each in kind[: len(kind) * 4 // 5]]
        others = [each for kind in kinds for each in kind[len(kind) * 4 // 5 :]]
        what = "the last fifth of the run"
    if len(known) < _FEWEST:
        raise RunError(
            f"{len(known)} observations with up to {most_requests} requests under way are too few "
            f"to fit to ({_FEWEST} are needed): take a run with less concurrency, or a larger "
            "--concurrency"
        )
    return Split(known, others, what)


def fit_line(pairs: Sequence[tuple[float, float]], noise: float = _NOISE) -> Line:
    """Least relative squares of (predicted, measured), with no host time below 0.

    Minimises the sum of (scale p / m + host / m - 1)^2, and of (scale - 1)^2 by weight: few points
    of alike loads can't tell both numbers apart, and would trade one for the other. ``noise``: of
    the points, relative.
    """
    weight_of_one = (noise / _SPREAD_OF_SCALES) ** 2
    rows = [(predicted / measured, 1 / measured) for predicted, measured in pairs]
    pp, ph, hh, p, h = (
        sum(products)
        for products in zip(*((a * a, a * b, b * b, a, b) for a, b in rows), strict=True)
    )
    pp, p = pp + weight_of_one, p + weight_of_one
    determinant = pp * hh - ph * ph
    if determinant > 1e-9 * pp * hh:
        scale, host_ns = (p * hh - h * ph) / determinant, (pp * h - ph * p) / determinant
        if host_ns >= 0 and scale > 0:
            return Line(scale, host_ns)
    return Line(p / pp, 0.0)


def fit_steps(known: Sequence[Observation]) -> Line:
    """To decodes alone, where there are enough."""
    decodes = [each for each in known if not each.added_ns]
    return _fit_all(decodes if len(decodes) >= _FEWEST else known)


def fit_prefills(known: Sequence[Observation], line: Line) -> float | None:
    """The scale of what prefills add: the median of steps that are mostly theirs.

    None for too few. ``line``: of decodes.
    """
    scales = [
        (each.measured_ns - line.at(each.predicted_ns - each.added_ns)) / each.added_ns
        for each in known
        if each.added_ns > _MOSTLY * each.predicted_ns
    ]
    return statistics.median(scales) if len(scales) >= _FEWEST else None


def is_of_a_gpu(prefill_scale: float) -> bool:
    """Prompts that a prefix cache had, of which a run does not tell, look like less than that."""
    return _LEAST_OF_A_GPU < prefill_scale < 1 / _LEAST_OF_A_GPU


def _fit_all(known: Sequence[Observation]) -> Line:
    """Again and again, with the noise that the last line has left, and without what is far off."""
    pairs = [(each.predicted_ns, each.measured_ns) for each in known]
    line = fit_line(pairs)
    for _ in range(_ROUNDS):
        off = [abs(line.at(predicted) / measured - 1) for predicted, measured in pairs]
        noise = max(_LEAST_NOISE, _MEDIANS_IN_NOISE * statistics.median(off))
        near = [pair for pair, error in zip(pairs, off, strict=True) if error <= _FAR * noise]
        line = fit_line(near, noise)
    return line


def fit_launches(steps: Sequence[EagerStep], scale: float, launches: int) -> int | None:
    """What the host takes of a launch, in ns: the median of steps that wait for it.

    None where too few do. ``launches``: of each step.
    """
    bound_ns = [s.measured_ns for s in steps if s.measured_ns > _BOUND * scale * s.gpu_ns]
    return round(statistics.median(bound_ns) / launches) if len(bound_ns) >= _FEWEST else None


class Rest(NamedTuple):
    """Of the time to a first token, what no step takes."""

    prompt_tokens: int
    ns: float


def rests(first_tokens: Sequence[FirstToken], line: Line) -> list[Rest]:
    return [
        Rest(
            each.prompt_tokens,
            each.measured_ns
            - line.at(each.predicted_ns, each.predicted_ns)
            - line.host_ns * (each.steps - 1),
        )
        for each in first_tokens
    ]


def fit_frontend(of_requests: Sequence[Rest]) -> Frontend:
    """Medians; a part for each token of the prompt where prompts are of different lengths.

    The slope is the median of those between two requests each (Theil-Sen), which a pause of the
    host does not change. Neither part is below 0. ``of_requests``: one or more, whose median is not
    below 0.
    """
    slopes = [
        (one.ns - other.ns) / (one.prompt_tokens - other.prompt_tokens)
        for one, other in combinations(of_requests, 2)
        if abs(one.prompt_tokens - other.prompt_tokens) >= _APART_TOKENS
    ]
    slope_ns = max(0.0, statistics.median(slopes)) if len(slopes) >= _FEWEST_PAIRS else 0.0
    request_ns = statistics.median(each.ns - slope_ns * each.prompt_tokens for each in of_requests)
    if request_ns < 0:
        request_ns = 0.0
        slope_ns = statistics.median(each.ns / each.prompt_tokens for each in of_requests)
    return Frontend(round(request_ns), round(slope_ns))


class Errors(NamedTuple):
    """Of predicted / measured - 1, in absolute values."""

    points: int
    median: float
    worst: float


def errors(observations: Sequence[Observation], line: Line) -> Errors | None:
    """None for no observations."""
    off = [abs(line.of(each) / each.measured_ns - 1) for each in observations]
    return Errors(len(off), statistics.median(off), max(off)) if off else None

"""Learns from recorded steps. For warpserve's own Python, with scikit-learn.

A linear regression without negative coefficients, on relative errors: an extra token, request or
token of context never shortens a step, and a short step counts as much as a long one. What a
feature adds may bend at some of the sizes that were recorded: matrices wait for weights up to some
number of tokens, and for multiprocessors from it on. How often it may bend is what predicts steps
best that were left out. Steps of one kind are learned by themselves, where there are enough of
them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from warpserve.predictors.batch import Batch
from warpserve.predictors.learned.bent_line import BentLine
from warpserve.predictors.learned.features import NAMES, STAGES, features, stage_of
from warpserve.predictors.learned.predictor import Regression, Stage, uncertainty_unit
from warpserve.predictors.origin import Origin
from warpserve.predictors.predictor import PredictorError

_FOLDS = 5
_FEWEST_STEPS = 10 * len(NAMES)
_BENDS = (0, 1, 2, 4, 8, 16)
"""Of each feature."""
_STEPS_OF_BEND = 5
"""So many are the fewest for each bend of one feature."""

_Floats = NDArray[Any]


def fit(
    recorded: Sequence[tuple[Batch, int]], source: str, origin: Origin | None = None
) -> Regression:
    """``recorded``: batches, and the ns that each took. ``source``: where they are from.
    ``origin``: what they are steps of, if that is known.

    Raises PredictorError for too few of them, and where scikit-learn is not installed.
    """
    if len(recorded) < _FEWEST_STEPS:
        raise PredictorError(
            f"{len(recorded)} steps are too few to learn from: {_FEWEST_STEPS} or more"
        )
    by_stage: dict[str, list[tuple[Batch, int]]] = defaultdict(list)
    for batch, duration_ns in recorded:
        by_stage[stage_of(batch)].append((batch, duration_ns))
    return Regression(
        names=list(NAMES),
        any=_stage(recorded),
        stages={
            name: _stage(by_stage[name]) for name in STAGES if len(by_stage[name]) >= _FEWEST_STEPS
        },
        is_eager=2 * sum(batch.is_eager for batch, _ in recorded) > len(recorded),
        source=source,
        origin=origin,
    )


class _Learned(NamedTuple):
    """With knots that were chosen beforehand."""

    knots: list[list[float]]
    """By feature."""
    members_ns: _Floats
    """(folds, columns): slopes of the regressions that left a fold out."""
    errors: _Floats
    """Relative, of each step by the regression that has not seen it."""


def _stage(recorded: Sequence[tuple[Batch, int]]) -> Stage:
    inputs = np.array([features(batch) for batch, _ in recorded], dtype=float)
    durations_ns = np.array([duration_ns for _, duration_ns in recorded], dtype=float)
    most = len(recorded) // _STEPS_OF_BEND
    tried = [
        _learned(inputs, durations_ns, _knots(inputs, bends)) for bends in _BENDS if bends <= most
    ]
    best = min(tried, key=lambda each: float(np.median(each.errors)))
    columns = _columns(inputs, best.knots)
    slopes_ns = np.vstack([_slopes_ns(columns, durations_ns), best.members_ns])
    median = float(np.median(best.errors))
    units = [uncertainty_unit(member_ns, median) for member_ns in columns @ best.members_ns.T]
    return Stage(
        lines=_lines(best.knots, slopes_ns),
        largest=inputs.max(axis=0).tolist(),
        steps=len(recorded),
        held_out_median=median,
        held_out_p90=float(np.quantile(best.errors, 0.9)),
        units_p90=float(np.quantile(best.errors / np.array(units), 0.9)),
    )


def _learned(inputs: _Floats, durations_ns: _Floats, knots: list[list[float]]) -> _Learned:
    """Steps beside each other are alike, so that whole stretches are left out."""
    columns = _columns(inputs, knots)
    fold = np.arange(len(inputs)) * _FOLDS // len(inputs)
    errors = np.empty(len(inputs))
    members_ns = np.empty((_FOLDS, columns.shape[1]))
    for held_out in range(_FOLDS):
        is_out = fold == held_out
        members_ns[held_out] = _slopes_ns(columns[~is_out], durations_ns[~is_out])
        predicted_ns = columns[is_out] @ members_ns[held_out]
        errors[is_out] = np.abs(predicted_ns / durations_ns[is_out] - 1)
    return _Learned(knots, members_ns, errors)


def _knots(inputs: _Floats, bends: int) -> list[list[float]]:
    """Where equal shares of the steps lie between, by feature."""
    shares = np.linspace(0, 1, bends + 2)[1:-1]
    # A size that was recorded, and none between two.
    quantiles = np.quantile(inputs, shares, axis=0, method="lower").T
    return [
        sorted({float(knot) for knot in knots if 0 < knot < largest})
        for knots, largest in zip(quantiles, inputs.max(axis=0), strict=True)
    ]


def _columns(inputs: _Floats, knots: list[list[float]]) -> _Floats:
    """(steps, pieces of all features): how much of a feature lies in each of its pieces."""
    columns = []
    for values, bends in zip(inputs.T, knots, strict=True):
        edges = [0.0, *bends, np.inf]
        columns += [np.clip(values, begin, end) - begin for begin, end in pairwise(edges)]
    return np.stack(columns, axis=1)


def _lines(knots: list[list[float]], slopes_ns: _Floats) -> list[BentLine]:
    """``slopes_ns``: (regressions, columns)."""
    pieces = iter(slopes_ns.T.tolist())
    return [BentLine(bends, [next(pieces) for _ in range(len(bends) + 1)]) for bends in knots]


def _slopes_ns(columns: _Floats, durations_ns: _Floats) -> _Floats:
    try:
        from sklearn.linear_model import LinearRegression
    except ImportError:
        raise PredictorError(
            "scikit-learn is not installed beside warpserve: pip install 'warpserve[fit]'"
        ) from None
    # Of one size each, so that no feature is lost to rounding.
    sizes = np.maximum(columns.max(axis=0), 1.0)
    relative = columns / sizes / durations_ns[:, np.newaxis]
    model = LinearRegression(positive=True, fit_intercept=False)
    model.fit(relative, np.ones(len(columns)))
    slopes_ns: _Floats = np.asarray(model.coef_) / sizes
    return slopes_ns

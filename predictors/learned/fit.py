"""Learns from recorded steps. For warpserve's own Python, with scikit-learn.

A linear regression without negative coefficients, on relative errors: an extra token, request or
token of context never shortens a step, and a short step counts as much as a long one. Steps of one
kind are learned by themselves, where there are enough of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpserve.predictors.batch import Batch
from warpserve.predictors.learned.features import NAMES, STAGES, features, stage_of
from warpserve.predictors.learned.predictor import Regression, Stage
from warpserve.predictors.predictor import PredictorError

_FOLDS = 5
_FEWEST_STEPS = 10 * len(NAMES)


def fit(recorded: Sequence[tuple[Batch, int]], source: str) -> Regression:
    """``recorded``: batches, and the ns that each took. ``source``: where they are from.

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
        source=source,
    )


def _stage(recorded: Sequence[tuple[Batch, int]]) -> Stage:
    inputs = np.array([features(batch) for batch, _ in recorded], dtype=float)
    durations_ns = np.array([duration_ns for _, duration_ns in recorded], dtype=float)
    errors = _held_out_errors(inputs, durations_ns)
    return Stage(
        coefficients_ns=_coefficients_ns(inputs, durations_ns).tolist(),
        largest=inputs.max(axis=0).tolist(),
        steps=len(recorded),
        held_out_median=float(np.median(errors)),
        held_out_p90=float(np.quantile(errors, 0.9)),
    )


def _held_out_errors(inputs: NDArray[Any], durations_ns: NDArray[Any]) -> NDArray[Any]:
    """Relative, of each step by a regression on the others. Steps beside each other are alike, so
    that whole stretches are left out.
    """
    fold = np.arange(len(inputs)) * _FOLDS // len(inputs)
    errors = np.empty(len(inputs))
    for held_out in range(_FOLDS):
        is_out = fold == held_out
        coefficients_ns = _coefficients_ns(inputs[~is_out], durations_ns[~is_out])
        errors[is_out] = np.abs(inputs[is_out] @ coefficients_ns / durations_ns[is_out] - 1)
    return errors


def _coefficients_ns(inputs: NDArray[Any], durations_ns: NDArray[Any]) -> NDArray[Any]:
    try:
        from sklearn.linear_model import LinearRegression
    except ImportError:
        raise PredictorError(
            "scikit-learn is not installed beside warpserve: pip install 'warpserve[fit]'"
        ) from None
    # Of one size each, so that no feature is lost to rounding.
    sizes = np.maximum(inputs.max(axis=0), 1.0)
    relative = inputs / sizes / durations_ns[:, np.newaxis]
    model = LinearRegression(positive=True, fit_intercept=False)
    model.fit(relative, np.ones(len(inputs)))
    coefficients_ns: NDArray[Any] = np.asarray(model.coef_) / sizes
    return coefficients_ns

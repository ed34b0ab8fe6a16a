"""The interface of all predictors."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple, Protocol

from warpserve.predictors.batch import Batch


class Provenance(str, Enum):
    """How a duration was come by, from the best to the weakest."""

    MEASURED = "measured"
    INTERPOLATED = "interpolated"
    EXTRAPOLATED = "extrapolated"
    ANALYTIC = "analytic"
    STATED = "stated"
    """By the user."""


class Prediction(NamedTuple):
    duration_ns: int
    provenance: Provenance


class Predictor(Protocol):
    def predict(self, batch: Batch) -> Prediction:
        """How long the GPU takes for ``batch``, which is not empty: more than 0 ns.

        The same batch always gets the same answer. Raises PredictorError where there is none.
        """


class PredictorError(Exception):
    """A predictor can't be made from what was said, or has no answer for a batch."""

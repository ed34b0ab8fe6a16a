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
    outside: str | None = None
    """Of an extrapolated one: what of the batch lies outside of what is known, and the range."""
    uncertainty: float | None = None
    """9 of 10 such steps are within so much of it, relatively; None where that is not known."""


class Lookups(NamedTuple):
    """How often an answer, or the part of it that depends on sizes alone, was known already."""

    hits: int
    misses: int


class Predictor(Protocol):
    def predict(self, batch: Batch) -> Prediction:
        """How long the GPU takes for ``batch``, which is not empty: more than 0 ns.

        The same batch always gets the same answer. Raises PredictorError where there is none.
        """


class OperatorTime(NamedTuple):
    """One row of a step explained."""

    name: str
    duration_ns: float
    source: str
    """The table or the formula that it came from."""


class Explaining(Predictor, Protocol):
    """A predictor that says what a duration is made of."""

    def explain(self, batch: Batch) -> list[OperatorTime]:
        """Operators in the order of the model, all layers together; they add up to predict()."""

    @property
    def lookups(self) -> Lookups:
        """Of all predictions so far. Both are 0 where nothing is looked up."""


class PredictorError(Exception):
    """A predictor can't be made from what was said, or has no answer for a batch."""

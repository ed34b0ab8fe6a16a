"""Steps of one deployment, applied to another, do not pass for its own."""

from __future__ import annotations

from warpserve.predictors.batch import Batch
from warpserve.predictors.deployment import Deployment
from warpserve.predictors.origin import Origin, differences
from warpserve.predictors.outer import Outer
from warpserve.predictors.predictor import Explaining, Prediction, Provenance

_NAMED = 4


class Transferred(Outer):
    """A predictor of recorded steps, all of whose answers count as extrapolated."""

    def __init__(self, inner: Explaining, outside: str) -> None:
        super().__init__(inner)
        self._outside = outside

    def predict(self, batch: Batch) -> Prediction:
        prediction = self._inner.predict(batch)
        return prediction._replace(
            provenance=Provenance.EXTRAPOLATED, outside=self._outside, uncertainty=None
        )


def transferred(inner: Explaining, origin: Origin | None, deployment: Deployment) -> Explaining:
    """``inner`` itself where its steps are the deployment's, or nobody has said whose they are."""
    apart = differences(origin, deployment) if origin else []
    if not apart:
        return inner
    more = f", and {len(apart) - _NAMED} more" if len(apart) > _NAMED else ""
    return Transferred(inner, f"recorded of another deployment: {'; '.join(apart[:_NAMED])}{more}")

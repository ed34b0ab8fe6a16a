"""How the tokens of a real run's requests were chosen: their figures do not tell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from warpserve.bench.config import STOCK_SAMPLING
from warpserve.bench.real.schema import Run
from warpserve.predictors.batch import Batch, Sampling
from warpserve.predictors.predictor import Prediction, Predictor

_FIELDS = ("top_k", "top_p", "min_p")


def sampling_of(run: Run, generation: Mapping[str, Any]) -> Sampling:
    """As the run's twin does it. ``generation``: the model's ``generation_config.json``, which
    holds for requests that ask for nothing, as those of all clients but SGLang's.
    """
    temperature = run.workload.temperature
    if temperature is None:
        temperature = STOCK_SAMPLING.get(run.deployment.engine or "", {}).get("temperature")
    if temperature is None:
        temperature = float(generation.get("temperature") or 1.0)
    filters = {name: generation[name] for name in _FIELDS if generation.get(name) is not None}
    return Sampling.asked(temperature, **filters)


class Sampled:
    """A predictor for batches that do not say how their tokens are chosen."""

    def __init__(self, predictor: Predictor, sampling: Sampling) -> None:
        self._predictor = predictor
        self._sampling = sampling

    def predict(self, batch: Batch) -> Prediction:
        return self._predictor.predict(batch._replace(sampling=self._sampling))

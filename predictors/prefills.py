"""What prefills add to a step: what it takes beyond its decodes alone."""

from __future__ import annotations

from warpserve.predictors.batch import Batch, Launch
from warpserve.predictors.captured import padded_for
from warpserve.predictors.predictor import Predictor


def decodes_alone(batch: Batch) -> Batch | None:
    """``batch`` without its prefills, as an engine would run it; None where nothing is left."""
    decodes = [request for request in batch.requests if not request.is_prefill]
    if len(decodes) == len(batch.requests):
        return batch
    if not decodes:
        return None
    launch = Launch.of(is_eager=batch.is_eager)
    padded = padded_for(launch, sum([request.new_tokens for request in decodes]))
    shared = batch.shared_tokens
    return Batch(
        tuple(decodes),
        padded,
        batch.loras,
        batch.sampling,
        launch,
        None if shared is None else shared - batch.padded_tokens + padded,
    )


def added_by_prefills_ns(predictor: Predictor, batch: Batch, duration_ns: int) -> int:
    """Of ``duration_ns``, which ``predictor`` says of all of ``batch``. Never below 0."""
    decodes = decodes_alone(batch)
    if decodes is batch:
        return 0
    if decodes is None:
        return duration_ns
    return max(0, duration_ns - predictor.predict(decodes).duration_ns)

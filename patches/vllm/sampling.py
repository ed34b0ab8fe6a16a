"""How vLLM chooses a request's tokens."""

from __future__ import annotations

from typing import Any

from warpserve.predictors.batch import Sampling


def sampling_of(parameters: Any) -> Sampling:
    """``parameters``: SamplingParams, or None of a request that pools."""
    if parameters is None:
        return Sampling.GREEDY
    return Sampling.asked(
        parameters.temperature,
        top_k=parameters.top_k,
        top_p=parameters.top_p,
        min_p=parameters.min_p,
    )

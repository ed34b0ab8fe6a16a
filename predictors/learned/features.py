"""What a step's duration is a sum of: each feature takes no negative time, so that more never takes
less.
"""

from __future__ import annotations

from warpserve.predictors.batch import Batch

_BENDS = (32, 128, 512)
"""Tokens from which on each may take longer: as long as matrices wait for weights, none does."""

NAMES = (
    "step",
    "tokens",
    *(f"tokens above {bend}" for bend in _BENDS),
    "requests",
    "context of decodes",
    "prefills, if any",
    "pairs of prefills",
    "cached tokens of prefills",
    "context of decodes beside prefills",
    "LoRA adapters",
)


STAGES = ("decode", "prefill", "mixed")
"""Steps of one kind run the same kernels, and are learned by themselves."""


def stage_of(batch: Batch) -> str:
    """One of STAGES."""
    kinds = {request.is_prefill for request in batch.requests}
    return "mixed" if len(kinds) == 2 else "prefill" if True in kinds else "decode"


def features(batch: Batch) -> list[float]:
    """In the order of NAMES."""
    tokens = batch.padded_tokens
    context = pairs = cached_of_prefills = 0.0
    has_prefill = False
    for new, cached, is_prefill in batch.requests:
        if is_prefill:
            has_prefill = True
            pairs += new * (cached + new / 2)
            cached_of_prefills += cached
        else:
            context += new + cached
    return [
        1.0,
        tokens,
        *(max(0, tokens - bend) for bend in _BENDS),
        len(batch.requests),
        context,
        float(has_prefill),
        pairs,
        cached_of_prefills,
        context if has_prefill else 0.0,
        batch.loras,
    ]

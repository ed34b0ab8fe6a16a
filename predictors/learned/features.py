"""What a step's duration is a sum of: each feature takes no negative time, so that more never takes
less.
"""

from __future__ import annotations

from warpserve.predictors.batch import Batch

NAMES = (
    "step",
    "tokens",
    "requests",
    "context of decodes",
    "longest context of decodes",
    "prefills, if any",
    "tokens of prefills",
    "pairs of prefills",
    "cached tokens of prefills",
    "context of decodes beside prefills",
    "LoRA adapters",
)

_KINDS = ("decode", "prefill", "mixed")
_EAGER = "eager "
STAGES = (*_KINDS, *(_EAGER + kind for kind in _KINDS))
"""Steps of one kind run the same kernels, launched alike, and are learned by themselves."""


def stage_of(batch: Batch) -> str:
    """One of STAGES."""
    kinds = {request.is_prefill for request in batch.requests}
    kind = "mixed" if len(kinds) == 2 else "prefill" if True in kinds else "decode"
    return _EAGER + kind if batch.is_eager else kind


def features(batch: Batch) -> list[float]:
    """In the order of NAMES; none is negative."""
    context = longest = prefilled = pairs = cached_of_prefills = 0.0
    has_prefill = False
    for new, cached, is_prefill in batch.requests:
        length = new + cached
        if is_prefill:
            has_prefill = True
            prefilled += new
            pairs += new * (cached + new / 2)
            cached_of_prefills += cached
        else:
            context += length
            longest = max(longest, length)
    return [
        1.0,
        batch.padded_tokens,
        len(batch.requests),
        context,
        longest,
        float(has_prefill),
        prefilled,
        pairs,
        cached_of_prefills,
        context if has_prefill else 0.0,
        batch.loras,
    ]

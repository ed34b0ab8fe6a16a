"""Whether a profile is one of the deployment."""

from __future__ import annotations

from warpserve.predictors.deployment import Deployment
from warpserve.predictors.model_shape import GroupedAttention, ModelShape
from warpserve.predictors.predictor import PredictorError
from warpserve.predictors.profile.costs import LOGITS
from warpserve.predictors.profile.files import Profile

_NEEDED = "qkv_proj"
_MATRICES = (_NEEDED, "o_proj", "gate_up_proj", "down_proj")
_WEIGHT_BYTES = 2
_PLAUSIBLE = (0.5, 1.15)
"""Parts of the memory's bandwidth. Half the ranks, or half the bytes of a weight, are outside."""


def check(profile: Profile, shape: ModelShape, deployment: Deployment) -> None:
    """Raises PredictorError for what profiles don't have, or this one has of something else.

    Their files don't say what sizes were profiled. How long it takes to read the weights does.
    """
    if not isinstance(shape.attention, GroupedAttention) or shape.sliding_layers:
        raise PredictorError("a profile is read of models with full, grouped attention only")
    if deployment.expert_dispatch is not None:
        raise PredictorError("a profile has nothing of tokens sent to experts: use analytic")
    if deployment.data_parallel > 1 and not deployment.expert_parallel:
        raise PredictorError(
            "a profile has no experts that replicas divide: use analytic, or "
            "--enable-expert-parallel"
        )
    if _NEEDED not in profile.dense or LOGITS not in profile.per_request:
        raise PredictorError(f"{profile.source} lacks {_NEEDED} or {LOGITS}")
    weights_bytes = _weights_bytes(shape, shape.attention, deployment.tensor_parallel)
    hardware = deployment.hardware
    if weights_bytes < hardware.l2_bytes:
        return
    reading_ns = min(profile.per_request[LOGITS].values()) + sum(
        min(profile.dense[name].values()) for name in _MATRICES if name in profile.dense
    )
    share = weights_bytes / reading_ns * 1e9 / hardware.memory_bandwidth_bytes_per_s
    if not _PLAUSIBLE[0] <= share <= _PLAUSIBLE[1]:
        raise PredictorError(
            f"{profile.source} is of another model, number of ranks, format or GPU: "
            f"{weights_bytes / 1e6:,.0f} MB of weights (of a layer, and of {LOGITS}) were read in "
            f"{reading_ns / 1e3:,.0f} us, at {share:.0%} of {hardware.kind}'s bandwidth"
        )


def _weights_bytes(shape: ModelShape, attention: GroupedAttention, ranks: int) -> float:
    """Of one layer's matrices, without experts, and of the last layer, on one rank."""
    projections = 2 * (attention.heads + attention.kv_heads) * attention.head_width
    mlp = 3 * shape.intermediate if shape.dense_layers else 0
    return _WEIGHT_BYTES * shape.hidden * (projections + mlp + shape.vocabulary) / ranks

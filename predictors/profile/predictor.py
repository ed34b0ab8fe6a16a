"""Steps put together from kernels that were timed inside an engine."""

from __future__ import annotations

from warpserve.predictors.composed import Composed
from warpserve.predictors.deployment import Deployment
from warpserve.predictors.model_shape import model_shape
from warpserve.predictors.profile.attention import Attention
from warpserve.predictors.profile.check import check
from warpserve.predictors.profile.costs import ProfileCosts
from warpserve.predictors.profile.files import read_profile


def profiled(path: str, deployment: Deployment) -> Composed:
    """Raises PredictorError for a profile of another model, or a layout that it does not have."""
    profile = read_profile(
        path, deployment.tensor_parallel, whole_experts=deployment.expert_parallel
    )
    shape = model_shape(deployment.config)
    check(profile, shape, deployment)
    attention = Attention(profile, deployment.stage_layers(shape.layers))
    costs = ProfileCosts(profile, shape, deployment, attention)
    return Composed.of(costs, deployment, mixed=attention)

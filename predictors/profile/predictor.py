"""Steps put together from kernels that were timed inside an engine."""

from __future__ import annotations

from warpserve.predictors.composed import Composed
from warpserve.predictors.deployment import Deployment
from warpserve.predictors.lora import Lora
from warpserve.predictors.model_shape import model_shape
from warpserve.predictors.profile.attention import Attention
from warpserve.predictors.profile.check import check
from warpserve.predictors.profile.costs import ProfileCosts
from warpserve.predictors.profile.files import read_profile
from warpserve.predictors.sampling import SamplingCosts
from warpserve.predictors.skewed import Skewed


def profiled(path: str, deployment: Deployment) -> Composed:
    """Raises PredictorError for a profile of another model, or a layout that it does not have."""
    profile = read_profile(path, deployment.tensor_parallel)
    shape = model_shape(deployment.config)
    check(profile, shape, deployment)
    attention = Attention(profile, deployment.stage_layers(shape.layers))
    return Composed(
        ProfileCosts(profile, shape, deployment, attention),
        SamplingCosts(deployment),
        Skewed(deployment),
        attention,
        Lora(deployment),
    )

"""The deployment that a user describes on the command line."""

from __future__ import annotations

from dataclasses import replace

from warpserve.bench.models import model_named
from warpserve.cuda_shim.catalogue import GpuSpec
from warpserve.patches.engines import EngineRequirement
from warpserve.predictors.deployment import Deployment
from warpserve.predictors.from_catalogue import hardware_of
from warpserve.predictors.predictor import PredictorError


def asked_deployment(
    model: str,
    gpu: str,
    engine: str,
    *,
    tp: int,
    pp: int,
    dp: int,
    ep: bool,
    weights: str | None,
    kv_cache: str,
    expert_kernels: str | None = None,
    lora_rank: int | None = None,
) -> Deployment:
    """As the options of `warpserve predict` have it. Raises WarpserveError and PredictorError."""
    required, spec = EngineRequirement.parse(engine), GpuSpec.parse(gpu)
    if spec.count not in (1, tp, tp * pp, tp * pp * dp):
        raise PredictorError(
            f"--gpu {gpu} with --tp {tp}, --pp {pp} and --dp {dp}: one GPU is meant, those of one "
            "stage or of one replica, or all of them"
        )
    return Deployment(
        config=model_named(model).config(),
        hardware=hardware_of(str(replace(spec, count=tp))),
        engine=required.engine,
        engine_version=required.version,
        tensor_parallel=tp,
        pipeline_parallel=pp,
        data_parallel=dp,
        expert_parallel=ep,
        expert_kernels=expert_kernels,
        lora_rank=lora_rank,
        weights=weights,
        kv_cache=kv_cache,
    )

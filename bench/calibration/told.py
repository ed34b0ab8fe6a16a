"""The deployment that a real run is of: what it says of itself, beside what its user says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from warpserve.bench.real.names import gpu_kind, model_name
from warpserve.bench.real.schema import Deployment as RealDeployment
from warpserve.bench.real.schema import Run
from warpserve.bench.run_folder import RunError
from warpserve.cuda_shim.catalogue import GpuSpec
from warpserve.predictors.deployment import Deployment
from warpserve.predictors.weights import FORMATS

_ENGINE = "vllm==0.24.0"
"""Where neither the run nor its user says which."""

_STORED: Mapping[str, tuple[str, ...]] = {
    "none": ("bf16",),
    "fp8": ("fp8", "fp8_block"),
    "fp8_per_block": ("fp8_block",),
    "fp8_per_channel": ("fp8",),
    "fp8_per_tensor": ("fp8",),
    "fbgemm_fp8": ("fp8",),
    "w8a8_fp8": ("fp8",),
    "w8a8_int8": ("int8",),
    "experts_int8": ("int8_wo",),
    "int8_per_channel_weight_only": ("int8_wo",),
    "mxfp4": ("mxfp4",),
    "gpt_oss_mxfp4": ("mxfp4",),
}
"""How weights may be stored (weights.FORMATS) under an engine's ``quantization``; what is not here,
such as compressed-tensors, tells only that they are not as they were trained."""


def _public(version: str) -> str:
    """Without what a build adds, such as ``+cu129``."""
    return version.partition("+")[0]


_AGREED: Mapping[str, tuple[str, Callable[[Any], Any]]] = {
    "engine": ("--engine", str),
    "engine_version": ("--engine", _public),
    "model": ("--model", model_name),
    "gpu": ("--gpu", gpu_kind),
    "tensor_parallel": ("--tp", int),
    "pipeline_parallel": ("--pp", int),
    "data_parallel": ("--dp", int),
    "expert_parallel": ("--ep", bool),
}
"""Fields of a real deployment: the option that says the same, and how both are read."""


def engine_of(run: Run) -> str:
    """ENGINE==VERSION, as the run says it."""
    engine, version = run.deployment.engine, run.deployment.engine_version
    return f"{engine}=={_public(version)}" if engine and version else _ENGINE


def told(run: Run, deployment: Deployment, model: str, gpu: str) -> Run:
    """The run, with the engine that is said where it does not say it.

    ``model``, ``gpu``: as the user names them. Raises RunError where the run says something else
    than its user, and where it is not known which replica a request was on.
    """
    _check_agreement(run.deployment, deployment, model, gpu)
    _check_weights(run.deployment.quantization, deployment)
    if deployment.data_parallel > 1 and not run.steps and run.workload.max_concurrency != 1:
        raise RunError(
            "which of the replicas a request was on is not known: calibrate to a recording, or to "
            "a run of one replica"
        )
    version = run.deployment.engine_version or deployment.engine_version
    known = {"engine": deployment.engine, "engine_version": version}
    return run.model_copy(update={"deployment": run.deployment.model_copy(update=known)})


def _check_agreement(real: RealDeployment, deployment: Deployment, model: str, gpu: str) -> None:
    named = {"model": model, "gpu": GpuSpec.parse(gpu).kind}
    for name, (option, read) in _AGREED.items():
        found, said = getattr(real, name), named.get(name, getattr(deployment, name, None))
        if found is not None and read(found) != read(said):
            raise RunError(_disagreement(name, found, said, option))


def _check_weights(quantization: str | None, deployment: Deployment) -> None:
    if quantization is None:
        return
    stored = deployment.model_weights.experts.name
    if stored not in _STORED.get(quantization, FORMATS.keys() - {"bf16"}):
        raise RunError(
            _disagreement("quantization", quantization, f"weights in {stored}", "--weights")
        )


def _disagreement(name: str, found: object, said: object, option: str) -> str:
    return (
        f"the run says {name} {found}, and not {said}: say another {option}, or what is right by "
        f"`warpserve import --set deployment.{name}=…`"
    )

"""What comes from the other engine's tables: kernels that were timed better there, or at all.

| engine | of | because |
|---|---|---|
| vLLM | matrices in fp8 by blocks | vLLM's were timed with their launch: launches.py |
| vLLM | experts in MXFP8 | vLLM's tables have none: mxfp8.py |
| SGLang | experts in MXFP4 on Hopper | SGLang's were timed as bf16 |
| SGLang | long prefills of latent attention on Hopper | latent_prefills.py |

SGLang takes Triton's kernels of OpenAI for gpt-oss on Hopper, as vLLM does, unless experts are
spread whole over ranks (srt/arg_groups/model_overrides/gpt_oss.py of 0.5.23, server_args.py of
0.5.14). Its tables have what it falls back to, with weights that were made bf16 beforehand: 128
experts take 2.2 ms, which is what reading 6.4 GB takes, against 0.7 ms in vLLM's.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from warpserve.predictors.aiconfigurator.latent_prefills import lack_full_heads
from warpserve.predictors.aiconfigurator.launches import without_launches
from warpserve.predictors.aiconfigurator.step_table import Operator
from warpserve.predictors.deployment import Deployment
from warpserve.predictors.mxfp8 import multiplies_in_fp8

EXPERTS = "moe"
MATRIX = "_gemm"
"""How the names of operators end that multiply by one."""
_EXPERTS_BESIDE_SHARED = "moe_overlap"
"""DeepSeek's decodes: its shared expert, or all else of the experts, whichever is longer."""


class Twin(NamedTuple):
    """The same under the other engine."""

    deployment: Deployment
    is_needed: bool
    """Without its tables there is no answer."""


def twin_of(deployment: Deployment) -> Twin | None:
    """None where it is of no use."""
    is_mxfp8 = deployment.engine == "vllm" and multiplies_in_fp8(deployment)
    if is_mxfp8 or hold_launches(deployment):
        other = replace(deployment, engine="sglang", engine_version="", kv_cache="bf16")
        return Twin(other, is_needed=is_mxfp8)
    if were_timed_as_bf16(deployment) or lack_full_heads(deployment):
        other = replace(deployment, engine="vllm", engine_version="")
        return Twin(other, is_needed=were_timed_as_bf16(deployment))
    return None


def of_both(deployment: Deployment, operator: Operator, twin: Operator) -> Operator:
    """``operator``: of the deployment; ``twin``: the one of that name under the other engine."""
    if operator.name == EXPERTS and (
        multiplies_in_fp8(deployment) or were_timed_as_bf16(deployment)
    ):
        other = "vllm" if deployment.engine == "sglang" else "sglang"
        return Operator(twin.name, f"{twin.source} of {other}", twin.duration_ns)
    if not hold_launches(deployment) or not _may_hold_launches(operator):
        return operator
    durations_ns = without_launches(operator.duration_ns, twin.duration_ns)
    return Operator(operator.name, f"{operator.source} and sglang's", durations_ns)


def hold_launches(deployment: Deployment) -> bool:
    """Whether the tables' times of its matrices, in fp8 by blocks, do."""
    return deployment.engine == "vllm" and deployment.model_weights.dense.name == "fp8_block"


def were_timed_as_bf16(deployment: Deployment) -> bool:
    """Whether the tables' times of its experts are of other kernels than it runs."""
    return (
        deployment.engine == "sglang"
        and deployment.model_weights.experts.name == "mxfp4"
        and deployment.hardware.is_hopper
        and not deployment.expert_parallel
    )


def _may_hold_launches(operator: Operator) -> bool:
    return operator.name.endswith(MATRIX) or operator.name == _EXPERTS_BESIDE_SHARED

"""What the ranks of a deployment exchange in a step, by formulas."""

from __future__ import annotations

from warpserve.predictors.analytic.collectives import all_reduce_ns, all_to_all_ns, gather_ns
from warpserve.predictors.deployment import Deployment
from warpserve.predictors.model_shape import Experts, ModelShape
from warpserve.predictors.predictor import OperatorTime

_RING = "ring"
_BY_HOST = "ring through the host"
_ALL_TO_ALL = "all-to-all"
_ACTIVATION_BYTES = 2


def exchanges(
    deployment: Deployment, shape: ModelShape, tokens: int, all_tokens: int, *, has_prefill: bool
) -> list[OperatorTime]:
    """After attention and MLP. ``all_tokens``: of all replicas.

    Replicas gather tokens for their experts and scatter results.

    Where tokens are sent to their experts alone, each rank of an attention sends a part of its
    tokens, so that its all-reduce falls into two halves, before and behind the experts.
    """
    hardware, experts = deployment.hardware, shape.experts
    layers = deployment.stage_layers(shape.layers)
    message_bytes = tokens * shape.hidden * _ACTIVATION_BYTES
    is_sent = deployment.expert_dispatch is not None
    apart = 0.0
    if experts is not None and (deployment.data_parallel > 1 or is_sent):
        apart = experts.layers * layers / shape.layers
    reductions = 2 * layers - apart + deployment.is_first_stage
    reduce_ns = all_reduce_ns(hardware, deployment.tensor_parallel, message_bytes)
    ring = _BY_HOST if deployment.goes_through_host else _RING
    rows = [OperatorTime("all-reduce", reductions * reduce_ns, ring)]
    if experts is not None and is_sent:
        sent_ns = _dispatch_ns(deployment, shape, experts, tokens, has_prefill=has_prefill)
        rows.append(OperatorTime("dispatch and combine", apart * sent_ns, _ALL_TO_ALL))
    else:
        all_bytes = all_tokens * shape.hidden * _ACTIVATION_BYTES
        gather_each_ns = gather_ns(hardware, deployment.expert_ways, all_bytes)
        rows.append(OperatorTime("gather and scatter", 2 * apart * gather_each_ns, ring))
    return [row for row in rows if row.duration_ns]


def _dispatch_ns(
    deployment: Deployment, shape: ModelShape, experts: Experts, tokens: int, *, has_prefill: bool
) -> float:
    """Of one layer. A token goes to each rank with an expert of its own once, or in DeepEP's
    low-latency kernels, which decode, once for each expert (https://github.com/deepseek-ai/DeepEP).
    """
    ways = deployment.expert_ways
    copies = experts.per_token * (ways - 1) / ways
    if has_prefill:
        copies = (ways - 1) * (1 - (1 - 1 / ways) ** experts.per_token)
    is_fp8 = deployment.model_weights.experts.multiplied_as == "fp8"
    sent = tokens / deployment.tensor_parallel * copies * shape.hidden
    return sum(
        all_to_all_ns(deployment.hardware, ways, sent * bytes_)
        for bytes_ in (1 if is_fp8 else _ACTIVATION_BYTES, _ACTIVATION_BYTES)
    )

"""The analytic predictor: a model's operators on one rank, each under the roofline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from warpserve.predictors.analytic.attention import AttentionLayer, Grouped, Latent, Work
from warpserve.predictors.analytic.exchanges import exchanges
from warpserve.predictors.analytic.roofline import ATTENTION, EXPERTS, Roofline
from warpserve.predictors.composed import Composed
from warpserve.predictors.deployment import Deployment
from warpserve.predictors.marlin import compute_efficiency
from warpserve.predictors.mixed import Prefill
from warpserve.predictors.model_shape import Experts, GroupedAttention, ModelShape, model_shape
from warpserve.predictors.mxfp8 import multiplies_in_fp8
from warpserve.predictors.predictor import OperatorTime, PredictorError, Provenance

_ROOFLINE = "roofline"
_ACTIVATION_BYTES = 2


def analytic(deployment: Deployment) -> Composed:
    """Raises PredictorError for a model or a layout that is not understood, naming the field."""
    costs = AnalyticCosts(deployment, model_shape(deployment.config))
    return Composed.of(costs, deployment)


class AnalyticCosts:
    """StepCosts of one rank."""

    provenance = Provenance.ANALYTIC

    def __init__(self, deployment: Deployment, shape: ModelShape) -> None:
        self._deployment = deployment
        self._shape = shape
        self._roofline = Roofline(deployment.hardware)
        self._weights = deployment.model_weights
        self._experts_multiplied_as = (
            "fp8" if multiplies_in_fp8(deployment) else self._weights.experts.multiplied_as
        )
        self._layers = deployment.stage_layers(shape.layers)
        self._stage_share = self._layers / shape.layers
        self._attention = _attention_of(deployment, shape)
        reached = compute_efficiency(deployment)
        self._experts_efficiency = replace(EXPERTS, compute=reached) if reached else EXPERTS
        _check_divides("intermediate_size", shape.intermediate, deployment.tensor_parallel)
        if shape.experts is not None:
            _check_experts(shape.experts, deployment)

    def tokens(
        self, tokens: int, *, has_prefill: bool, shared_tokens: int | None = None
    ) -> list[OperatorTime]:
        shape, roofline, deployment = self._shape, self._roofline, self._deployment
        all_tokens = deployment.shared_tokens(tokens, shared_tokens)
        rows = [
            ("norms", self._layers * 2 * roofline.elementwise_ns(4 * tokens * shape.hidden)),
            (
                "attention projections",
                self._layers * self._attention.projections_ns(roofline, tokens),
            ),
        ]
        if deployment.is_first_stage:
            rows.insert(0, ("embedding", roofline.elementwise_ns(2 * tokens * shape.hidden)))
        if shape.dense_layers:
            rows.append(("MLP", self._dense_layers * self._mlp_ns(tokens, shape.intermediate)))
        if shape.experts is not None:
            rows += self._experts(tokens, all_tokens, shape.experts)
        of_kernels = [OperatorTime(name, duration, _ROOFLINE) for name, duration in rows]
        return of_kernels + exchanges(
            deployment, shape, tokens, all_tokens, has_prefill=has_prefill
        )

    def logits(self, requests: int) -> list[OperatorTime]:
        if not self._deployment.is_last_stage:
            return []
        columns = self._shape.vocabulary / self._deployment.tensor_parallel
        duration_ns = self._roofline.matrix_ns(requests, self._shape.hidden, columns, 2)
        return [OperatorTime("logits", duration_ns, _ROOFLINE)]

    def prefill_attention(self, prefills: Sequence[Prefill]) -> list[OperatorTime]:
        full = self._attention.prefill(prefills, None)
        sliding = full
        if self._shape.sliding_layers:
            sliding = self._attention.prefill(prefills, self._shape.sliding_window)
        return [OperatorTime("prefill attention", self._attention_ns(full, sliding), _ROOFLINE)]

    def decode_attention(self, contexts: Sequence[int]) -> list[OperatorTime]:
        full = self._attention.decode(contexts, None)
        sliding = full
        if self._shape.sliding_layers:
            sliding = self._attention.decode(contexts, self._shape.sliding_window)
        return [OperatorTime("decode attention", self._attention_ns(full, sliding), _ROOFLINE)]

    def outside(self, *_step: object, **_more: object) -> str | None:
        """A formula is as good anywhere."""
        return None

    @property
    def _dense_layers(self) -> float:
        return self._shape.dense_layers * self._stage_share

    def _attention_ns(self, full: Work, sliding: Work) -> float:
        """``full``: of a layer that looks at all tokens; ``sliding``: of one that does not."""
        sliding_layers = self._shape.sliding_layers * self._stage_share
        layers = ((full, self._layers - sliding_layers), (sliding, sliding_layers))
        return sum(
            count
            * self._roofline.duration_ns(
                ATTENTION, operations=work.operations, moved_bytes=work.moved_bytes
            )
            for work, count in layers
            if count
        )

    def _mlp_ns(self, tokens: int, intermediate: int) -> float:
        """Gate and up in one, activation, down."""
        roofline, hidden = self._roofline, self._shape.hidden
        width = intermediate / self._deployment.tensor_parallel
        stored, number = self._weights.dense.bytes_per_weight, self._weights.dense.multiplied_as
        return (
            roofline.matrix_ns(tokens, hidden, 2 * width, stored, number)
            + roofline.elementwise_ns(3 * tokens * width)
            + roofline.matrix_ns(tokens, width, hidden, stored, number)
        )

    def _experts(self, tokens: int, all_tokens: int, experts: Experts) -> list[tuple[str, float]]:
        layers = experts.layers * self._stage_share
        hidden = self._shape.hidden
        router_ns = self._roofline.matrix_ns(tokens, hidden, experts.count, 2)
        rows = [
            ("router", layers * router_ns),
            ("experts", layers * self._routed_ns(all_tokens, experts)),
        ]
        if experts.shared_intermediate:
            shared_ns = self._mlp_ns(tokens, experts.shared_intermediate)
            rows.append(("shared experts", layers * shared_ns))
        return rows

    def _routed_ns(self, all_tokens: int, experts: Experts) -> float:
        """Tokens of all replicas meet here."""
        ways = self._deployment.expert_ways
        is_hit = experts.share_hit(all_tokens)
        weights = 3 * self._shape.hidden * experts.intermediate
        stored = self._weights.experts.bytes_per_weight
        rows = all_tokens * experts.per_token / ways
        return self._roofline.duration_ns(
            self._experts_efficiency,
            operations=2 * rows * weights,
            moved_bytes=experts.count * is_hit * weights / ways * stored
            + rows * (2 * self._shape.hidden + 3 * experts.intermediate) * _ACTIVATION_BYTES,
            number=self._experts_multiplied_as,
        )


def _attention_of(deployment: Deployment, shape: ModelShape) -> AttentionLayer:
    kind = shape.attention
    weights = deployment.model_weights.dense
    ranks, cache_bytes = deployment.tensor_parallel, deployment.kv_cache_bytes
    if isinstance(kind, GroupedAttention):
        return Grouped(
            kind, hidden=shape.hidden, ranks=ranks, weights=weights, cache_bytes=cache_bytes
        )
    return Latent(kind, hidden=shape.hidden, ranks=ranks, weights=weights, cache_bytes=cache_bytes)


def _check_experts(experts: Experts, deployment: Deployment) -> None:
    if deployment.expert_parallel:
        _check_divides("the number of experts", experts.count, deployment.expert_ways)
    else:
        _check_divides("moe_intermediate_size", experts.intermediate, deployment.expert_ways)


def _check_divides(name: str, size: int, ranks: int) -> None:
    if size % ranks:
        raise PredictorError(f"{name} {size} does not divide by {ranks} ranks")

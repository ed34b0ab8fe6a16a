"""What the operators of a step cost, by a profile."""

from __future__ import annotations

import math
from collections.abc import Sequence

from warpserve.predictors.analytic.exchanges import exchanges
from warpserve.predictors.deployment import Deployment
from warpserve.predictors.mixed import Prefill
from warpserve.predictors.model_shape import Experts, ModelShape
from warpserve.predictors.predictor import OperatorTime, PredictorError, Provenance
from warpserve.predictors.profile.attention import Attention, as_one
from warpserve.predictors.profile.files import Profile
from warpserve.predictors.profile.grid import Grid, Steps

LOGITS = "lm_head"
_EMBEDDING, _LAST_NORM = "embedding", "final_layernorm"
_MLP = ("gate_up_proj", "act_fn", "down_proj")
_TIMES_A_LAYER = {
    "layernorm": 2,
    **dict.fromkeys(("qkv_proj", "qk_norm", "rotary_emb", "o_proj", *_MLP), 1),
}
"""How often a layer of the model has a layer of the profile."""
_ATTENTION_KERNELS = 2
"""Of a layer: keys and values are stored, and attended to."""
_GAP_NS = 1_200.0
"""From the end of a kernel to the start of the next: steps of up to 16 decodes of vLLM 0.19 take an
RTX PRO 6000 0.4 to 0.6 ms longer than their 320 kernels (tests/data/llmservingsim). Of an RTX 4090
that can't be told: all its steps are shorter than the sums of its kernels, by 2 to 4 %."""
_AXES = (
    "tokens in a step",
    "new tokens of prefills",
    "cached tokens of prefills",
    "decodes",
    "tokens of context a decode",
    "tokens for the experts of a rank",
)


class ProfileCosts:
    """StepCosts of one rank."""

    provenance = Provenance.INTERPOLATED

    def __init__(
        self, profile: Profile, shape: ModelShape, deployment: Deployment, attention: Attention
    ) -> None:
        """Raises PredictorError for layers that are not known, and experts that are not there."""
        self._source = profile.source
        self._shape, self._deployment = shape, deployment
        self._attention = attention
        layers = deployment.stage_layers(shape.layers)
        self._stage_share = layers / shape.layers
        self._curves = {
            name: (count, Steps(points))
            for name, points in profile.dense.items()
            if (count := self._times(name, layers))
        }
        self._kernels = layers * _ATTENTION_KERNELS + sum(n for n, _ in self._curves.values())
        self._logits = Steps(profile.per_request[LOGITS])
        self._experts = None if shape.experts is None else self._experts_grid(profile)
        most_tokens = min(curve.last for _, curve in self._curves.values())
        of_experts = max((tokens for tokens, _ in profile.experts), default=math.inf)
        self._most = (most_tokens, *attention.most, of_experts)

    def tokens(
        self, tokens: int, *, has_prefill: bool, shared_tokens: int | None = None
    ) -> list[OperatorTime]:
        all_tokens = self._deployment.shared_tokens(tokens, shared_tokens)
        rows = [
            OperatorTime(name, count * curve.at(tokens), self._source)
            for name, (count, curve) in self._curves.items()
        ]
        if self._experts is not None and self._shape.experts is not None:
            rows.append(self._routed(all_tokens, self._shape.experts, self._experts))
        rows.append(OperatorTime("between kernels", self._kernels * _GAP_NS, "so many launches"))
        return rows + exchanges(
            self._deployment, self._shape, tokens, all_tokens, has_prefill=has_prefill
        )

    def logits(self, requests: int) -> list[OperatorTime]:
        if not self._deployment.is_last_stage:
            return []
        return [OperatorTime(LOGITS, self._logits.at(requests), self._source)]

    def prefill_attention(self, prefills: Sequence[Prefill]) -> list[OperatorTime]:
        duration_ns = self._attention.prefills_ns(prefills)
        return [OperatorTime("prefill attention", duration_ns, self._source)]

    def decode_attention(self, contexts: Sequence[int]) -> list[OperatorTime]:
        return [OperatorTime("decode attention", self._attention.alone_ns(contexts), self._source)]

    def outside(
        self,
        tokens: int,
        prefills: Sequence[Prefill],
        contexts: Sequence[int],
        *,
        shared_tokens: int | None = None,
    ) -> str | None:
        new, cached = as_one(prefills) if prefills else (0, 0.0)
        count = len(contexts)
        context = sum(contexts) / count if count else 0
        of_all = self._deployment.shared_tokens(tokens, shared_tokens)
        of_experts = of_all / self._deployment.whole_expert_ways
        asked = (tokens, new, cached, count, context, of_experts)
        for name, value, most in zip(_AXES, asked, self._most, strict=True):
            if value > most:
                return f"{value:,.0f} {name}, measured up to {most:,}"
        return None

    def _times(self, name: str, layers: int) -> float:
        """How often a step of this stage has a layer of the profile."""
        if name == _EMBEDDING:
            return float(self._deployment.is_first_stage)
        if name == _LAST_NORM:
            return float(self._deployment.is_last_stage)
        if name not in _TIMES_A_LAYER:
            known = ", ".join((_EMBEDDING, *_TIMES_A_LAYER, _LAST_NORM))
            raise PredictorError(f"{self._source}: layer {name!r} is not known; known are {known}")
        if name in _MLP:
            return self._shape.dense_layers * self._stage_share
        return float(layers * _TIMES_A_LAYER[name])

    def _experts_grid(self, profile: Profile) -> Grid:
        if not profile.experts:
            is_whole = self._deployment.expert_parallel
            hint = "" if is_whole else "; tp1's is of whole experts (--enable-expert-parallel)"
            raise PredictorError(f"{self._source} has no moe.csv{hint}")
        return Grid(profile.experts)

    def _routed(self, all_tokens: int, experts: Experts, grid: Grid) -> OperatorTime:
        """Tokens of all replicas meet here."""
        ways = self._deployment.whole_expert_ways
        hit = experts.count / ways * experts.share_hit(all_tokens)
        one_ns = grid.at((all_tokens / ways, hit))
        return OperatorTime("moe", experts.layers * self._stage_share * one_ns, self._source)

"""What an engine runs, and on what: all that a predictor knows beside the batch."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from warpserve.predictors.hardware import Hardware
from warpserve.predictors.predictor import PredictorError
from warpserve.predictors.weights import ModelWeights, weights_of

MARLIN = "marlin"
BF16_ACTIVATIONS = "flashinfer_trtllm"
FP8_ACTIVATIONS = "flashinfer_trtllm_afp8"
EXPERT_KERNELS = (MARLIN, BF16_ACTIVATIONS, FP8_ACTIVATIONS)
"""As vLLM's --moe-backend has them: marlin.py, mxfp8.py."""
KV_CACHE_TYPES = {"bf16": 2, "fp8": 1}


@dataclass(frozen=True)
class Deployment:
    """A model, as one engine of a version serves it on GPUs of one kind."""

    config: Mapping[str, Any]
    """The model's ``config.json``."""
    hardware: Hardware
    engine: str
    """vllm or sglang"""
    engine_version: str
    tensor_parallel: int = 1
    pipeline_parallel: int = 1
    pipeline_rank: int = 0
    """Which stage it is that steps are predicted of."""
    layers_by_stage: tuple[int, ...] | None = None
    """As the engine was told to divide them; None: as it does by itself."""
    data_parallel: int = 1
    """Replicas of the attention that share the experts."""
    expert_parallel: bool = False
    """Experts are spread whole over all ranks, not cut into pieces of each."""
    expert_dispatch: str | None = None
    """``deepep``: tokens are sent to the ranks of their experts alone, by all-to-all; None: all
    ranks of the experts see all tokens."""
    expert_kernels: str | None = None
    """One of EXPERT_KERNELS: what multiplies experts with weights of 4 bits; None: what the engine
    takes by itself."""
    weights: str | None = None
    """How weights are stored (weights.FORMATS), or None: as ``config`` says."""
    kv_cache: str = "bf16"
    """A key of KV_CACHE_TYPES."""
    lora_rank: int | None = None
    """The largest of its adapters; None: it has none."""
    drafter: Drafter | None = None
    """For speculative decoding with a model that drafts."""

    def __post_init__(self) -> None:
        for name in ("tensor_parallel", "pipeline_parallel", "data_parallel"):
            if getattr(self, name) < 1:
                raise PredictorError(f"{name} is 1 or more, not {getattr(self, name)}")
        if self.lora_rank is not None and self.lora_rank < 1:
            raise PredictorError(f"lora_rank is 1 or more, not {self.lora_rank}")
        if self.expert_dispatch not in (None, "deepep"):
            raise PredictorError(f"no expert_dispatch {self.expert_dispatch!r}; there is deepep")
        if self.expert_kernels not in (None, *EXPERT_KERNELS):
            raise PredictorError(
                f"no expert_kernels {self.expert_kernels!r}; there are {', '.join(EXPERT_KERNELS)}"
            )
        if not 0 <= self.pipeline_rank < self.pipeline_parallel:
            raise PredictorError(
                f"pipeline_rank is below pipeline_parallel, not {self.pipeline_rank}"
            )

    @property
    def model_weights(self) -> ModelWeights:
        """How they are stored and multiplied. Raises PredictorError for what is not known."""
        return weights_of(self.config, self.weights)

    @property
    def kv_cache_bytes(self) -> int:
        """Of one number in the cache. Raises PredictorError for a type that is not known."""
        if self.kv_cache not in KV_CACHE_TYPES:
            raise PredictorError(
                f"no kv_cache of {self.kv_cache!r}; there are: {', '.join(KV_CACHE_TYPES)}"
            )
        return KV_CACHE_TYPES[self.kv_cache]

    @property
    def is_first_stage(self) -> bool:
        """The one with the embedding."""
        return self.pipeline_rank == 0

    @property
    def is_last_stage(self) -> bool:
        """The one with the last layer."""
        return self.pipeline_rank == self.pipeline_parallel - 1

    def stage_layers(self, layers: int) -> int:
        """Of a model's ``layers``, those of this stage: as engines divide them (get_pp_indices).

        Raises PredictorError where they can't be divided, or were told to be so in another way.
        """
        if told := self.layers_by_stage:
            if (len(told), sum(told)) != (self.pipeline_parallel, layers):
                raise PredictorError(
                    f"layers_by_stage {told} are not those of {layers} layers in "
                    f"{self.pipeline_parallel} stages"
                )
            return told[self.pipeline_rank]
        if layers < self.pipeline_parallel:
            raise PredictorError(f"{layers} layers are too few for {self.pipeline_parallel} stages")
        each, more = divmod(layers, self.pipeline_parallel)
        # One more for each stage backwards: SGLang from the last, vLLM from the last but one.
        end = self.pipeline_parallel - (self.engine == "vllm")
        return each + (end - more <= self.pipeline_rank < end)

    def stage_of_rank(self, rank: int) -> int:
        """``rank``: of a worker, as step logs are named for it. SGLang's ranks of a stage are those
        of all replicas of its attention, vLLM's those of one.
        """
        replicas = 1 if self.engine == "vllm" else self.data_parallel
        return rank // (self.tensor_parallel * replicas)

    @property
    def expert_ways(self) -> int:
        """Over how many ranks the experts are spread, whole or in pieces."""
        return self.tensor_parallel * self.data_parallel

    @property
    def whole_expert_ways(self) -> int:
        """Over how many of them whole experts are spread; each piece of an expert over the rest."""
        return self.expert_ways if self.expert_parallel else 1

    @property
    def goes_through_host(self) -> bool:
        """Whether its ranks exchange all by the host's memory."""
        return self.hardware.go_through_host(self.expert_ways)

    def shared_tokens(self, tokens: int, known: int | None) -> int:
        """Of all replicas, each of which has ``tokens`` unless their sum is ``known``."""
        return tokens * self.data_parallel if known is None else known

    def to_json(self) -> str:
        """The same text for the same deployment."""
        fields = {name: value for name, value in asdict(self).items() if value is not None}
        return json.dumps(fields, sort_keys=True, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Deployment:
        fields = json.loads(text)
        fields["hardware"] = Hardware(**fields["hardware"])
        if told := fields.get("layers_by_stage"):
            fields["layers_by_stage"] = tuple(told)
        if drafter := fields.get("drafter"):
            drafts = cls.from_json(json.dumps(drafter["deployment"]))
            fields["drafter"] = Drafter(drafts, drafter["passes"])
        return cls(**fields)


@dataclass(frozen=True)
class Drafter:
    deployment: Deployment
    """Of the model that drafts."""
    passes: int
    """How often it works in a step."""

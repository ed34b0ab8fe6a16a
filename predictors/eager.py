"""Steps whose kernels the host launches one by one: none is shorter than launching them takes.

Decodes of few requests and prefills of short prompts keep a GPU busy for less time than Python
needs to ask for them, so engines replay CUDA graphs. Where they do not (vLLM's ``--enforce-eager``;
SGLang's ``--disable-cuda-graph``, its prefills in versions without graphs of them, and those of
DeepSeek-V3 on Blackwell), the host decides. Compiled code (vLLM's prefills beyond the captured
sizes) launches fewer kernels, each in a fraction of the time, and is not meant.

How long a launch takes is one number for all engines and models, of public tables: the first tokens
of single short prompts (SGLang 0.5.6 and 0.5.7, less 8 ms for servers and client), and a TPOT of
vLLM 0.9.1 with ``--enforce-eager``. The kernels of a layer are counted as those engines call them.

| what was measured | kernels here | us each |
|---|---|---|
| DeepSeek-R1-0528 in fp8, 8 x B200: TTFT 141 ms | 2,331 | 57 |
| GLM-4.6, 8 x B200: 150 ms | 2,543 | 56 |
| GLM-4.7-Flash, B200: 95 ms | 1,363 | 64 |
| Qwen3-235B-A22B, 8 x B200: 109 ms | 2,256 | 45 |
| gpt-oss-120b, 8 x B200: 32 ms | 468 | 51 |
| Qwen3-14B-AWQ, A100: TPOT 20.6 ms | 480 | 43 |

(github.com/sgl-project/sgl-cookbook at 7b5bd9c; github.com/vllm-project/vllm, an issue.)

Left out: a host that schedules ahead begins to launch while the GPU still works on the step before.
Behind a decode of 15 ms a prefill comes as much too late here.
"""

from __future__ import annotations

from warpserve.predictors.batch import Batch
from warpserve.predictors.deployment import Deployment
from warpserve.predictors.model_shape import (
    LatentAttention,
    ModelShape,
    model_shape,
    norms_heads,
)
from warpserve.predictors.outer import Outer
from warpserve.predictors.predictor import Explaining, OperatorTime, Prediction, Provenance
from warpserve.predictors.weights import WeightFormat

LAUNCH_NS = 50_000
"""Between the hosts of the table above: a slower one takes more. ``launch_host=`` says it."""

_GROUPED = 6
"""Norm, projection, rotation, storing keys and values, attention, projection."""
_NORMED_HEADS = 2
_LATENT = 11
"""Norm, down, two norms, up twice, rotation, joining keys, storing them, attention, projection."""
_DENSE = 4
"""Norm, up, activation, down."""
_EXPERTS = 14
"""Norm, router, choice, sorting tokens by expert, up, activation, down, sum, and their buffers."""
_FUSED_EXPERTS = 5
"""Norm, router, activations quantised, all the rest, sum."""
_SHARED_EXPERTS = 4
_COLLECTIVES = 2
_QUANTISED = ("fp8", "int8", "fp4")
"""Formats of multiplications before which activations are quantised, by a kernel of its own."""
_FUSED = ("mxfp4", "nvfp4")


class Eager(Outer):
    """A predictor of kernels, whose eager steps take no less than their launches."""

    def __init__(self, inner: Explaining, launches_ns: int) -> None:
        super().__init__(inner)
        self._launches_ns = launches_ns

    def predict(self, batch: Batch) -> Prediction:
        prediction = self._inner.predict(batch)
        if not batch.is_eager or prediction.duration_ns >= self._launches_ns:
            return prediction
        guessed = prediction.provenance is Provenance.EXTRAPOLATED
        provenance = prediction.provenance if guessed else Provenance.ANALYTIC
        return prediction._replace(duration_ns=self._launches_ns, provenance=provenance)

    def explain(self, batch: Batch) -> list[OperatorTime]:
        rows = super().explain(batch)
        more_ns = self._launches_ns - sum(row.duration_ns for row in rows)
        if batch.is_eager and more_ns > 0:
            rows.append(OperatorTime("waiting for launches", more_ns, "eager: no CUDA graph"))
        return rows


def eager(inner: Explaining, deployment: Deployment, launch_ns: int) -> Explaining:
    """``launch_ns``: of each kernel; 0: launches cost nothing."""
    return Eager(inner, launches(deployment) * launch_ns) if launch_ns else inner


def launches(deployment: Deployment) -> int:
    """The kernels of one forward pass of a pipeline's stage, without the last layer's."""
    shape, weights = model_shape(deployment.config), deployment.model_weights
    attention = _of_attention(deployment, shape, weights.dense)
    if deployment.tensor_parallel > 1 or deployment.data_parallel > 1:
        attention += _COLLECTIVES
    kernels = shape.dense_layers * (attention + _DENSE + 2 * _is_quantised(weights.dense))
    if shape.experts is not None:
        has_shared = shape.experts.shared_intermediate > 0
        mlp = _of_experts(weights.experts)
        mlp += has_shared * (_SHARED_EXPERTS + 2 * _is_quantised(weights.dense))
        kernels += shape.experts.layers * (attention + mlp)
    return round(kernels * deployment.stage_layers(shape.layers) / shape.layers)


def _of_attention(deployment: Deployment, shape: ModelShape, weights: WeightFormat) -> int:
    if isinstance(shape.attention, LatentAttention):
        return _LATENT + 4 * _is_quantised(weights)
    norms = _NORMED_HEADS * norms_heads(deployment.config)
    return _GROUPED + norms + 2 * _is_quantised(weights)


def _of_experts(weights: WeightFormat) -> int:
    if weights.name in _FUSED:
        return _FUSED_EXPERTS
    return _EXPERTS + 2 * _is_quantised(weights)


def _is_quantised(weights: WeightFormat) -> bool:
    return weights.multiplied_as in _QUANTISED

"""What adapters take in a step (LoRA): a roofline of the kernels beside each matrix.

vLLM clears a buffer, multiplies the inputs by A into it, and adds that times B to the outputs:
three kernels for each of a layer's four matrices (qkv, o, gate and up, down; punica_gpu.py and
ops/triton_ops/lora_shrink_op.py of vllm/lora). SGLang does it in two (sglang/srt/lora/backend).
With few tokens their launches are most of it. All tokens of a step are taken to have adapters once
a request has one, as wide as the largest rank that the engine was told of. Adapters of experts and
of latent attention are left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from warpserve.predictors.analytic.roofline import ELEMENTWISE, Roofline
from warpserve.predictors.deployment import Deployment
from warpserve.predictors.model_shape import GroupedAttention, ModelShape, model_shape
from warpserve.predictors.predictor import OperatorTime

_BUFFER_BYTES = 4
_WEIGHT_BYTES = 2
_VALUE_BYTES = 2
_CLEARS = {"vllm": 1, "sglang": 0}
"""Kernels that clear a buffer, for each matrix."""


class _Matrix(NamedTuple):
    """On one rank."""

    inputs: int
    outputs: int
    parts: int
    """That have an adapter each: q, k and v."""
    layers: int


class Lora:
    def __init__(self, deployment: Deployment) -> None:
        self._rank = deployment.lora_rank or 0
        self._matrices = list(_matrices(deployment)) if self._rank else []
        self._roofline = Roofline(deployment.hardware)
        self._clears = _CLEARS[deployment.engine]

    def rows(self, tokens: int, loras: int) -> list[OperatorTime]:
        """``loras``: adapters that the step's requests have; none: no time."""
        if not loras or not self._matrices:
            return []
        duration_ns = sum(
            matrix.layers * self._matrix_ns(matrix, tokens, loras) for matrix in self._matrices
        )
        return [OperatorTime("adapters", duration_ns, f"roofline, rank {self._rank}")]

    def _matrix_ns(self, matrix: _Matrix, tokens: int, loras: int) -> float:
        wide = self._rank * matrix.parts
        buffer_bytes = _BUFFER_BYTES * tokens * wide
        shrink_ns = self._roofline.duration_ns(
            ELEMENTWISE,
            operations=2 * tokens * matrix.inputs * wide,
            moved_bytes=_VALUE_BYTES * tokens * matrix.inputs
            + _WEIGHT_BYTES * loras * matrix.inputs * wide
            + buffer_bytes,
        )
        expand_ns = self._roofline.duration_ns(
            ELEMENTWISE,
            operations=2 * tokens * self._rank * matrix.outputs,
            moved_bytes=buffer_bytes
            + _WEIGHT_BYTES * loras * self._rank * matrix.outputs
            + 2 * _VALUE_BYTES * tokens * matrix.outputs,
        )
        return shrink_ns + expand_ns + self._clears * ELEMENTWISE.launch_ns


def _matrices(deployment: Deployment) -> Iterator[_Matrix]:
    """Columns of the first of each pair are spread over the ranks, and rows of the second."""
    shape = model_shape(deployment.config)
    ranks, layers = deployment.tensor_parallel, deployment.stage_layers(shape.layers)
    if isinstance(shape.attention, GroupedAttention):
        yield from _of_attention(shape, shape.attention, ranks, layers)
    if shape.dense_layers:
        dense_layers = layers * shape.dense_layers // shape.layers
        width = shape.intermediate // ranks
        yield _Matrix(shape.hidden, 2 * width, 2, dense_layers)
        yield _Matrix(width, shape.hidden, 1, dense_layers)


def _of_attention(
    shape: ModelShape, attention: GroupedAttention, ranks: int, layers: int
) -> Iterator[_Matrix]:
    queries = attention.heads * attention.head_width // ranks
    keys = attention.kv_heads_of(ranks) * attention.head_width
    yield _Matrix(shape.hidden, queries + 2 * keys, 3, layers)
    yield _Matrix(queries, shape.hidden, 1, layers)

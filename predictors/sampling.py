"""What choosing tokens takes after the last layer, by the passes of its kernels over the logits.

An estimate: a roofline of bytes moved, but for the sort, which is measured. Each rank of a
tensor-parallel group does it for all requests.

| engine | top-k, top-p | by |
|---|---|---|
| vLLM before 0.17 | torch.sort | [topk_topp_sampler.py][sampler] of that version |
| vLLM 0.17 to 0.20 | a Triton kernel, from 8 requests on | likewise |
| vLLM from 0.21 on | FlashInfer | likewise: VLLM_USE_FLASHINFER_SAMPLER is true by default |
| SGLang | FlashInfer | sglang/srt/layers/sampler.py |

[sampler]: https://github.com/vllm-project/vllm/blob/main/vllm/v1/sample/ops/topk_topp_sampler.py
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from warpserve.predictors.analytic.roofline import ELEMENTWISE, Roofline
from warpserve.predictors.batch import Sampling
from warpserve.predictors.deployment import Deployment
from warpserve.predictors.predictor import OperatorTime, PredictorError


@dataclass(frozen=True)
class Passes:
    """Of some kernels over all logits."""

    bytes_a_logit: int
    kernels: int

    def __add__(self, other: Passes) -> Passes:
        """One after the other."""
        return Passes(self.bytes_a_logit + other.bytes_a_logit, self.kernels + other.kernels)


_TO_32_BITS = Passes(2 + 4, 1)
_LARGEST = Passes(4, 1)
_TEMPERATURE = Passes(4 + 4, 1)
_SOFTMAX = Passes(4 + 4 + 4, 1)
_COPY = Passes(4 + 4, 1)
_NOISE = Passes(4, 1)
_OVER_NOISE = Passes(4 + 4 + 4, 1)
_DRAWN_BY_TORCH = _TEMPERATURE + _SOFTMAX + _NOISE + _OVER_NOISE + _LARGEST
_DRAWN_BY_FLASHINFER = Passes(2 * (4 + 4), 1)
"""Two rounds of a draw and a look at what is refused."""
_LIKELIEST_K = Passes(4 * 4 + 4, 1)
"""A digit of a radix a pass, and then the others are masked."""
_FUSED = Passes(4, 1)
"""The noise is made where it is used: gumbel.py of vLLM's second model runner."""
_SORTED = Passes(512, 12)
"""31 us for a row of 151,936 logits on an H100: what Qwen3-32B under vLLM 0.12 takes more for each
request, from 16 to 64 of them (tests/data/silicon). torch.sort moves twelve bytes a logit in and
out for each of five digits, and the largest are scattered back.
"""
_SORTED_IN_SEGMENTS = Passes(700, 12)
"""Likewise, at 128 requests."""
_SEGMENTS = 128
"""Rows from which on torch sorts each by itself: aten/src/ATen/native/cuda/Sort.cu."""
_ROWS_FOR_TRITON = 8

_GREEDY = _TO_32_BITS + _LARGEST
_BY_TORCH = _TO_32_BITS + _DRAWN_BY_TORCH
_BY_FLASHINFER = _TO_32_BITS + _TEMPERATURE + _LIKELIEST_K + _SOFTMAX + _DRAWN_BY_FLASHINFER
_FUSED_SINCE = (0, 33)
_FLASHINFER_SINCE = (0, 21)
_TRITON_SINCE = (0, 17)


class SamplingCosts:
    def __init__(self, deployment: Deployment) -> None:
        config: Mapping[str, Any] = deployment.config
        self._vocabulary = int((config.get("text_config") or config)["vocab_size"])
        self._roofline = Roofline(deployment.hardware)
        self._is_here = deployment.is_last_stage
        self._passes = _passes_of(deployment)

    def rows(self, requests: int, sampling: Sampling) -> list[OperatorTime]:
        """None in a pipeline's stages before the last."""
        if not self._is_here:
            return []
        passes = self._passes(requests, sampling)
        logits = requests * self._vocabulary
        once_ns = self._roofline.duration_ns(
            ELEMENTWISE, operations=logits, moved_bytes=passes.bytes_a_logit * logits
        )
        duration_ns = once_ns + (passes.kernels - 1) * ELEMENTWISE.launch_ns
        return [OperatorTime("sampling", duration_ns, f"roofline, {sampling.label}")]


def _passes_of(deployment: Deployment) -> Callable[[int, Sampling], Passes]:
    """By the number of requests and how their tokens are chosen."""
    if deployment.engine == "sglang":
        return _of_sglang
    version = _release(deployment.engine_version)
    random = _TO_32_BITS + _TEMPERATURE + _FUSED if version >= _FUSED_SINCE else _BY_TORCH

    def of_vllm(requests: int, sampling: Sampling) -> Passes:
        if sampling is Sampling.GREEDY:
            return _GREEDY
        if sampling is Sampling.RANDOM:
            return random
        if version >= _FLASHINFER_SINCE:
            return _BY_FLASHINFER
        if version >= _TRITON_SINCE and requests >= _ROWS_FOR_TRITON:
            return _BY_TORCH + _LIKELIEST_K
        return _BY_TORCH + (_SORTED if requests < _SEGMENTS else _SORTED_IN_SEGMENTS)

    return of_vllm


def _of_sglang(_requests: int, sampling: Sampling) -> Passes:
    """Probabilities are copied over the logits."""
    if sampling is Sampling.GREEDY:
        return _GREEDY
    probabilities = _TO_32_BITS + _TEMPERATURE + _SOFTMAX + _COPY
    if sampling is Sampling.RANDOM:
        return probabilities + _LARGEST
    return probabilities + _DRAWN_BY_FLASHINFER


def _release(version: str) -> tuple[int, int]:
    """Its first two numbers."""
    found = re.match(r"(\d+)\.(\d+)", version)
    if found is None:
        raise PredictorError(f"engine_version {version!r} is no version, such as 0.24.0")
    return int(found[1]), int(found[2])

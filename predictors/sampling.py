"""What sampling takes after the last layer: a lower bound, as batches do not say how it is done.

vLLM turns all logits to 32 bits and looks at each for the largest: greedy sampling. A temperature
takes some passes more, and the likeliest k or p need a sorted vocabulary, which takes several times
as long. Each rank of a tensor-parallel group does it for all requests.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from warpserve.predictors.analytic.roofline import ELEMENTWISE, Roofline
from warpserve.predictors.deployment import Deployment
from warpserve.predictors.predictor import OperatorTime

_BYTES_A_LOGIT = 2 + 4 + 4
"""Read with 16 bits, written with 32, read again."""
_LAUNCHES = 2


class Sampling:
    def __init__(self, deployment: Deployment) -> None:
        config: Mapping[str, Any] = deployment.config
        self._vocabulary = int((config.get("text_config") or config)["vocab_size"])
        self._roofline = Roofline(deployment.hardware)
        self._is_here = deployment.is_last_stage

    def rows(self, requests: int) -> list[OperatorTime]:
        """None in a pipeline's stages before the last."""
        if not self._is_here:
            return []
        logits = requests * self._vocabulary
        once_ns = self._roofline.duration_ns(
            ELEMENTWISE, operations=logits, moved_bytes=_BYTES_A_LOGIT * logits
        )
        duration_ns = once_ns + (_LAUNCHES - 1) * ELEMENTWISE.launch_ns
        return [OperatorTime("sampling", duration_ns, "roofline, as if greedy")]

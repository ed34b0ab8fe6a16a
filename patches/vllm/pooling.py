"""Pooling models answer with vectors instead of tokens."""

from __future__ import annotations

from typing import Any

import torch

from warpserve.patches.vllm.requests import Request

_OF_EACH_TOKEN = ("token_embed", "token_classify")
_EMBEDS = ("embed", "token_embed")
_TASKS = (*_EMBEDS, "classify", "token_classify")


class Pooling:
    """Vectors of the right sizes, which differ by request: unit vectors, or probabilities."""

    def __init__(self, model_config: Any) -> None:
        self._embedding_size = int(model_config.embedding_size)
        self._labels = int(getattr(model_config.hf_config, "num_labels", 1))

    def of(self, request: Request) -> torch.Tensor | None:
        """None until its whole prompt is computed.

        Shape [embedding size] or [labels], with one more dimension in front for tasks that answer
        for each token. Of late interaction (ColBERT), where workers compare queries with documents
        themselves, a number. Raises NotImplementedError for another task.
        """
        if request.computed_tokens < request.known_tokens:
            return None
        task = request.pooling.task
        if task not in _TASKS:
            raise NotImplementedError(
                f"warpserve cannot run a pooling model's task {task!r}, only {', '.join(_TASKS)}"
            )
        if getattr(request.pooling, "late_interaction_params", None) is not None:
            return torch.rand((), generator=torch.Generator().manual_seed(request.seed))
        rows = request.prompt_tokens if task in _OF_EACH_TOKEN else 1
        values = self._values(request, task, rows)
        return values if task in _OF_EACH_TOKEN else values[0]

    def _values(self, request: Request, task: str, rows: int) -> torch.Tensor:
        drawn = torch.Generator().manual_seed(request.seed)
        if task in _EMBEDS:
            size = request.pooling.dimensions or self._embedding_size
            return torch.nn.functional.normalize(torch.randn(rows, size, generator=drawn))
        parts = torch.rand(rows, self._labels, generator=drawn)
        return parts if self._labels == 1 else parts / parts.sum(dim=1, keepdim=True)

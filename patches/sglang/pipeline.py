"""Pipeline parallelism: what a stage hands to the next one. SGLang's scheduler sends it."""

from __future__ import annotations

from typing import Any

import torch


class HiddenStates:
    """Of one stage: as large as the model's, and as empty as compute memory is."""

    def __init__(self, model: Any, device: Any, most_tokens: int) -> None:
        """``model``: a ModelConfig. To be made outside of control memory."""
        shape = (most_tokens, model.hidden_size)
        self._buffers = {
            name: torch.empty(shape, dtype=model.dtype, device=device)
            for name in ("hidden_states", "residual")
        }

    def of(self, tokens: int) -> dict[str, torch.Tensor]:
        return {name: buffer[:tokens] for name, buffer in self._buffers.items()}

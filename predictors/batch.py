"""What one forward pass works on."""

from __future__ import annotations

from typing import NamedTuple


class RequestStep(NamedTuple):
    """The part of one request in a step."""

    new_tokens: int
    """Tokens computed in this step: of the prompt, or 1 and the drafts to be verified."""
    cached_tokens: int
    """Tokens whose keys and values are there already."""
    is_prefill: bool
    """Some new tokens are known beforehand: the prompt's, or outputs lost to preemption."""


class Batch(NamedTuple):
    """All requests of a step, in the engine's order."""

    requests: tuple[RequestStep, ...]
    padded_tokens: int
    """Tokens that the GPU works on: with those that fill up a captured CUDA graph."""
    loras: int = 0
    """LoRA adapters that its requests use, each counted once."""

    @property
    def new_tokens(self) -> int:
        return sum(request.new_tokens for request in self.requests)

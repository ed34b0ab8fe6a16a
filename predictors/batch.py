"""What one forward pass works on."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple


class RequestStep(NamedTuple):
    """The part of one request in a step."""

    new_tokens: int
    """Tokens computed in this step: of the prompt, or 1 and the drafts to be verified."""
    cached_tokens: int
    """Tokens whose keys and values are there already."""
    is_prefill: bool
    """Some new tokens are known beforehand: the prompt's, or outputs lost to preemption."""


_SAMPLING_EPS = 1e-5
"""vllm/sampling_params.py: a temperature below it is none."""


class Sampling(IntEnum):
    """How tokens are chosen, the dearer the larger: engines do for all requests of a step what the
    dearest of them asks for.
    """

    GREEDY = 0
    """The likeliest token (temperature 0)."""
    RANDOM = 1
    """One of all tokens."""
    FILTERED = 2
    """One of the likeliest k, or p, or those of min_p and more."""

    @property
    def label(self) -> str:
        """As step logs and options have it."""
        return self.name.lower()

    @classmethod
    def labelled(cls, label: str) -> Sampling:
        """Raises ValueError, with the choices."""
        for each in cls:
            if each.label == str(label).lower():
                return each
        raise ValueError(f"no sampling {label!r}; there are: {', '.join(e.label for e in cls)}")

    @classmethod
    def asked(
        cls, temperature: float, *, top_k: int = 0, top_p: float = 1.0, min_p: float = 0.0
    ) -> Sampling:
        """By the parameters of a request, as both engines take them. ``top_k``: of all where it is
        below 1.
        """
        if temperature < _SAMPLING_EPS:
            return cls.GREEDY
        return cls.FILTERED if top_k > 0 or top_p < 1 or min_p > 0 else cls.RANDOM


class Launch(IntEnum):
    """How the GPU is told of a step's kernels, the slowest last."""

    GRAPH = 0
    """All in CUDA graphs, or but for attention."""
    COMPILED = 1
    """By compiled code."""
    EAGER = 2
    """One by one from Python."""

    @classmethod
    def of(cls, *, is_eager: bool) -> Launch:
        """Of what is known to be eager, or not to be."""
        return cls.EAGER if is_eager else cls.GRAPH


class Batch(NamedTuple):
    """All requests of a step, in the engine's order."""

    requests: tuple[RequestStep, ...]
    padded_tokens: int
    """Tokens that the GPU works on: with those that fill up a captured CUDA graph."""
    loras: int = 0
    """LoRA adapters that its requests use, each counted once."""
    sampling: Sampling = Sampling.GREEDY
    launch: Launch = Launch.GRAPH
    shared_tokens: int | None = None
    """Of all replicas that share the experts, as each has padded its own; None: as many on each as
    here."""
    skips_drafts: bool = False
    """No draft follows, as none could be used: all prompts go on, or all answers end."""

    @property
    def new_tokens(self) -> int:
        return sum(request.new_tokens for request in self.requests)

    @property
    def is_eager(self) -> bool:
        return self.launch is Launch.EAGER

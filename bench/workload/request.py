"""One request of a workload, before it has a prompt and a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from warpserve.errors import WarpserveError


class WorkloadError(WarpserveError):
    """A workload does not exist, can't be read as one, or does not have what is asked of it."""


class Segment(NamedTuple):
    """A stretch of a prompt; stretches of the same ``key`` have the same token ids."""

    key: int
    tokens: int


@dataclass(frozen=True)
class Request:
    """What is known of a request; a prompt is of random tokens where nothing says more."""

    input_tokens: int
    """Of the prompt, as the server counts them; of a later turn: those that it adds."""
    output_tokens: int
    arrival_ns: int | None = None
    """From the start of the workload; None: not recorded, or a later turn."""
    segments: tuple[Segment, ...] = ()
    """What the prompt begins with."""
    prompt: str | None = None
    prompt_token_ids: tuple[int, ...] | None = None
    output_token_ids: tuple[int, ...] | None = None
    session: str | None = None
    """Requests of the same session are its turns, in their order."""
    think_ns: int = 0
    """Of a later turn: from the end of the answer before it."""

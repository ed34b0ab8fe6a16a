"""The tokens of SGLang's requests, from what its scheduler knows of them alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from warpserve.patches.sglang.grammar import decides, obeying
from warpserve.patches.speculation import Acceptance
from warpserve.patches.tokens import GIVEN_OUTPUT, TokenSource, given_token_ids, seed_of

_KNOWN = "_warpserve_tokens"


class Tokens:
    """What a worker samples."""

    def __init__(self, vocabulary_size: int, acceptance: Acceptance) -> None:
        self._acceptance = acceptance
        self._vocabulary_size = vocabulary_size
        self._source = TokenSource(vocabulary_size)

    def of(self, batch: Any, allowed: Mapping[int, Sequence[int]]) -> list[int]:
        """The next token of each request, in the batch's order; also of those whose prompt is not
        computed to its end, which the scheduler drops. ``batch``: a ScheduleBatch; ``allowed``: by
        place in it, what grammars allow.
        """
        places = enumerate(zip(batch.reqs, batch.seq_lens_cpu.tolist(), strict=True))
        return [
            self.one_of(request, allowed[place], length)
            if place in allowed
            else self.at(request, length)
            for place, (request, length) in places
        ]

    def verified(self, request: Any, length: int, drafts: int) -> list[int]:
        """The drafts that are accepted, and one more token. ``length``: of what the KV cache has,
        all known tokens but the last.
        """
        seed, _ = _known(request)
        count = self._acceptance.of(seed, length + 1, drafts) + 1
        if not decides(request.grammar):
            return [self.at(request, length + 1 + i) for i in range(count)]
        return obeying(
            request.grammar,
            count,
            self._vocabulary_size,
            lambda allowed, place: self.one_of(request, allowed, length + 1 + place),
        )

    def at(self, request: Any, position: int) -> int:
        """The token behind ``position`` others. ``request``: a Req."""
        seed, given = _known(request)
        answered = position - len(request.origin_input_ids)
        if 0 <= answered < len(given):
            return given[answered]
        return self._source.at(seed, position)

    def one_of(self, request: Any, allowed: Sequence[int], position: int) -> int:
        """One of those that a grammar allows."""
        seed, _ = _known(request)
        return self._source.one_of(allowed, seed, position)


def vector_of(request: Any, size: int) -> Any:
    """A unit vector that differs by prompt. ``request``: a Req."""
    import torch

    seed, _ = _known(request)
    drawn = torch.Generator().manual_seed(seed)
    return torch.nn.functional.normalize(torch.randn(size, generator=drawn), dim=0)


def _known(request: Any) -> tuple[int, list[int]]:
    """Seed and given output, found once for each request."""
    known: tuple[int, list[int]] | None = getattr(request, _KNOWN, None)
    if known is None:
        parameters = getattr(request.sampling_params, "custom_params", None) or {}
        known = seed_of(request.origin_input_ids), given_token_ids(parameters.get(GIVEN_OUTPUT, ()))
        setattr(request, _KNOWN, known)
    return known

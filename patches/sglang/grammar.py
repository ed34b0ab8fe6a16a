"""Structured output: which tokens a grammar allows next."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any


def allowed_tokens(batch: Any, vocabulary_size: int) -> dict[int, list[int]]:
    """By place in the batch, of requests with a grammar that has not ended. ``batch``: a
    ScheduleBatch.
    """
    if not batch.has_grammar:
        return {}
    return {
        place: _allowed(request.grammar, vocabulary_size)
        for place, request in enumerate(batch.reqs)
        if decides(request.grammar)
    }


def decides(grammar: Any) -> bool:
    """``grammar``: a BaseGrammarObject, or None."""
    return grammar is not None and not grammar.finished and not grammar.is_terminated()


def obeying(
    grammar: Any, tokens: int, vocabulary_size: int, one_of: Callable[[Sequence[int], int], int]
) -> list[int]:
    """Up to so many tokens, fewer where the grammar ends, which this leaves where it is.

    ``one_of`` chooses from those that are allowed, for a place in what this returns.
    """
    chosen: list[int] = []
    try:
        while len(chosen) < tokens and not grammar.is_terminated():
            token = one_of(_allowed(grammar, vocabulary_size), len(chosen))
            grammar.accept_token(token)
            chosen.append(token)
    finally:
        if chosen:
            grammar.rollback(len(chosen))
    return chosen


def _allowed(grammar: Any, vocabulary_size: int) -> list[int]:
    import numpy as np

    mask = grammar.allocate_vocab_mask(vocabulary_size, 1, "cpu")
    grammar.fill_vocab_mask(mask, 0)
    bits = np.unpackbits(np.ascontiguousarray(mask[0].numpy()).view(np.uint8), bitorder="little")
    allowed: list[int] = np.flatnonzero(bits[:vocabulary_size]).tolist()
    return allowed

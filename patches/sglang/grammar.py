"""Structured output: which tokens a grammar allows next."""

from __future__ import annotations

from typing import Any


def allowed_tokens(batch: Any, vocabulary_size: int) -> dict[int, list[int]]:
    """By place in the batch, of requests with a grammar that has not ended. ``batch``: a
    ScheduleBatch.
    """
    import numpy as np

    if not batch.has_grammar:
        return {}
    allowed = {}
    for place, request in enumerate(batch.reqs):
        grammar = request.grammar
        if grammar is None or grammar.finished or grammar.is_terminated():
            continue
        mask = grammar.allocate_vocab_mask(vocabulary_size, 1, "cpu")
        grammar.fill_vocab_mask(mask, 0)
        bits = np.unpackbits(
            np.ascontiguousarray(mask[0].numpy()).view(np.uint8), bitorder="little"
        )
        allowed[place] = np.flatnonzero(bits[:vocabulary_size]).tolist()
    return allowed

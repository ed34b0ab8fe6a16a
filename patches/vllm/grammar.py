"""Structured output: which tokens a grammar allows next."""

from __future__ import annotations

from typing import Any


def allowed_tokens(grammar: Any, scheduled: Any) -> dict[str, list[int]]:
    """Of each request, what may follow its known tokens.

    ``grammar``: a GrammarOutput, with a bit for each token, in as many rows for each request as it
    has drafts, and one more. ``scheduled``: the SchedulerOutput.
    """
    import numpy as np

    rows = np.ascontiguousarray(grammar.grammar_bitmask).view(np.uint8)
    drafts = scheduled.scheduled_spec_decode_tokens
    allowed, row = {}, 0
    for request_id in grammar.structured_output_request_ids:
        bits = np.unpackbits(rows[row], bitorder="little")
        allowed[request_id] = np.flatnonzero(bits).tolist()
        row += 1 + len(drafts.get(request_id, ()))
    return allowed

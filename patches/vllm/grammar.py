"""Structured output: which tokens a grammar allows next."""

from __future__ import annotations

from typing import Any


def allowed_tokens(grammar: Any) -> dict[str, Any]:
    """By request. ``grammar``: a GrammarOutput, which has a bit for each token, by request."""
    import numpy as np

    rows = np.ascontiguousarray(grammar.grammar_bitmask).view(np.uint8)
    return {
        request_id: np.flatnonzero(np.unpackbits(row, bitorder="little")).tolist()
        for request_id, row in zip(grammar.structured_output_request_ids, rows, strict=False)
    }

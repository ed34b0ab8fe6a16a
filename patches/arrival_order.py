"""The order of requests that arrive at one instant, whichever of them was first on the host."""

from __future__ import annotations

import re
from collections.abc import Sequence

Place = tuple[int, list[str | int]]

LAST: Place = (2, [])
"""Of what is no request."""

_RANDOM_ID = re.compile("[0-9a-f]{12,}")
"""In a UUID and in ids of the engines' own. (vLLM adds eight such digits to any id.)"""
_NUMBERS = re.compile("([0-9]+)")


def place_of(request_id: str, prompt: Sequence[int]) -> Place:
    """By the id that a client gave it (``X-Request-Id``), as vLLM's own client numbers them; then
    come those with random ids, by their prompts.
    """
    if _RANDOM_ID.search(request_id):
        return 1, list(prompt)
    return 0, _numbers_by_value(request_id)


def _numbers_by_value(name: str) -> list[str | int]:
    """For sorting: request-9 comes before request-10."""
    return [int(part) if part.isdecimal() else part for part in _NUMBERS.split(name)]

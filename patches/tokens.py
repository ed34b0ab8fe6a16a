"""The tokens that a virtual GPU samples: valid ids that differ by request and position.

They are a function of the prompt and the position, so that a request which is preempted and
computed again, or asked again, gets the same ones.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from zlib import crc32

GIVEN_OUTPUT = "warpserve_output_token_ids"
"""Where a request says the token ids of its answer.

vLLM: in SamplingParams.extra_args (``vllm_xargs`` over HTTP); SGLang: in ``custom_params``. A list,
or a text like ``700,5,12``: with completions vLLM takes no lists.
"""

_MIX = 0x9E3779B97F4A7C15  # 2**64 over the golden ratio: Fibonacci hashing, Knuth, TAOCP 3, 6.4
_WORD = (1 << 64) - 1


def seed_of(prompt_token_ids: Sequence[int], choice: int = 0) -> int:
    """``choice``: which of several answers to the same prompt."""
    return crc32(array("q", prompt_token_ids).tobytes(), choice)


def given_token_ids(given: Sequence[int] | str, vocabulary_size: int | None = None) -> list[int]:
    """What a request said as its answer. Raises ValueError, also for ids outside a vocabulary."""
    try:
        ids = [int(token) for token in (given.split(",") if isinstance(given, str) else given)]
    except (TypeError, ValueError):
        raise ValueError(f"{GIVEN_OUTPUT}: {given!r} are no token ids") from None
    for token in ids:
        if vocabulary_size is not None and not 0 <= token < vocabulary_size:
            raise ValueError(f"{GIVEN_OUTPUT}: {token} is none of {vocabulary_size:,} token ids")
    return ids


class TokenSource:
    """Ids from the middle half of a vocabulary, away from special tokens, which lie at its ends."""

    def __init__(self, vocabulary_size: int) -> None:
        self._first = vocabulary_size // 4
        self._count = max(1, vocabulary_size // 2)

    def at(self, seed: int, position: int) -> int:
        return self._first + _mixed(seed, position) % self._count

    def one_of(self, allowed: Sequence[int], seed: int, position: int) -> int:
        """One of the ids that a grammar allows."""
        return allowed[_mixed(seed, position) % len(allowed)]


def fraction_of(seed: int, position: int) -> float:
    """At least 0 and below 1, and as good as drawn for each seed and position.

    SplitMix64's last steps (Steele, Lea, Flood, OOPSLA 2014): the multiples of one number, which do
    for ids, would tell from each draw when the next low one comes.
    """
    word = (seed << 32 | position) * _MIX & _WORD
    word = (word ^ word >> 30) * 0xBF58476D1CE4E5B9 & _WORD
    word = (word ^ word >> 27) * 0x94D049BB133111EB & _WORD
    return (word ^ word >> 31) / 2**64


def _mixed(seed: int, position: int) -> int:
    return (((seed << 32 | position) + 1) * _MIX & _WORD) >> 32

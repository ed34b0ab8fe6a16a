"""The tokens of a synthetic tokenizer, chosen so that random ids survive decoding and encoding.

Clients of serving benchmarks draw token ids, send them as text, and expect the server to count as
many tokens again. A tokenizer over these tokens takes, from left to right, the longest that fits.

* *bytes*: all 256, so that any text can be written;
* *pieces* of three characters, for digits and for what is no listed word;
* *words* with the space before them: the most frequent ones of English;
* *fillers*, as many as a vocabulary has room for: a space and three syllables without meaning.

Words and fillers begin with a space, and no token has one elsewhere: wherever they follow each
other they are read as they were. Bytes and pieces may join what is before them (" token" and "s"),
but not a filler, and each has one before it in the order of ids. So two ways of drawing are safe
by construction: runs of consecutive ids, and any ids of the middle half, which has no bytes or
pieces in it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain, islice, product
from pathlib import Path

_WORDS = Path(__file__).with_name("words.txt")
_SYLLABLES = tuple(a + b for a in "bdfgklmnprstvz" for b in "aeiou")
_PIECE_CHARACTERS = 3
_PIECES = 4_000

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
"""What a byte that is half of a character decodes to: one token too, so that its count survives."""


def vocabulary(size: int) -> list[bytes]:
    """``size`` different tokens, by id. Raises ValueError where that is too few or too many."""
    words = [line for line in _WORDS.read_text().splitlines() if not line.startswith("#")]
    unspaced = _unspaced(words)
    missing = size - len(unspaced) - len(words)
    fillers = list(islice(_fillers(words), max(0, missing)))
    if len(unspaced) > min(len(fillers), size // 4):
        raise ValueError(f"{size} tokens are too few for English and what keeps it apart")
    if len(fillers) < missing:
        raise ValueError(f"{size} tokens are too many: there are no more fillers")
    pairs = [*chain.from_iterable(zip(fillers, unspaced, strict=False))]
    others = [*(f" {word}".encode() for word in words), *fillers[len(unspaced) :]]
    return pairs[: len(unspaced)] + others + pairs[len(unspaced) :]


def _unspaced(words: Iterable[str]) -> list[bytes]:
    """Bytes and pieces. Their number is even, so that half of their pairs are whole pairs."""
    numbers = [f"{number:03}" for number in range(1_000)]
    counts = Counter(
        word[start : start + _PIECE_CHARACTERS]
        for word in words
        for start in range(len(word) - _PIECE_CHARACTERS + 1)
    )
    pieces = [piece for piece, _ in counts.most_common(_PIECES - 1)]
    bytes_ = [bytes([value]) for value in range(256)]
    return bytes_ + [text.encode() for text in (REPLACEMENT, *numbers, *pieces)]


def _fillers(words: Iterable[str]) -> Iterator[bytes]:
    """Those that a word does not begin with: " banana" and "s" might be one."""
    begun = {word[: 2 * 3] for word in words}
    for syllables in product(_SYLLABLES, repeat=3):
        filler = "".join(syllables)
        if filler not in begun:
            yield f" {filler}".encode()

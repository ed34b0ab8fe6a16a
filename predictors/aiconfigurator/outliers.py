"""Times of matrices that stand out from those of the sizes beside them.

The package has each as it was measured, once. In its tables of vLLM 0.24.0 on a B200 a tenth of
those in fp8 took some 20 us more than their neighbours, at sizes that differ from shape to shape,
and in those of a B300, which has the same cores, none; but for a single row, in both. What two
engines' tables have alike is no accident: on H100s some sizes take 1.2 times as long as others
beside them, and on Hopper what is one row more than its tiles hold takes up to three times as long.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from warpserve.predictors.curves import Curve

_TILES = (*range(16, 129, 16), *range(160, 257, 32), *range(512, 4353, 256))
_BEHIND_TILES = {size + 1 for size in _TILES}
MEASURED_ROWS = sorted({*range(1, 16), *_TILES, *_BEHIND_TILES, 8192, 16384, 32768})
"""The package's, of matrices."""

_STANDS_OUT = 1.4
_ALIKE, _ALIKE_BEHIND_TILES = 1.4, 1.15
"""How far the two sides of a size may be apart for what is between them to be known."""
_LARGE_ROWS = 257
"""From here on every size behind a tile is a jump."""
_BESIDE = 2


def without_outliers(rows: Sequence[int], durations_ns: Sequence[int]) -> tuple[list[int], int]:
    """The durations with outliers replaced, and how many those were.

    ``rows``: with all of `MEASURED_ROWS` among them. What lies between measured sizes is drawn
    anew where one beside it was replaced.
    """
    by_rows = dict(zip(rows, durations_ns, strict=True))
    measured = [by_rows[size] for size in MEASURED_ROWS]
    kept = _kept(measured)
    outliers = set(range(len(measured))).difference(kept)
    if not outliers:
        return list(durations_ns), 0
    curve = Curve([MEASURED_ROWS[i] for i in kept], [measured[i] for i in kept])

    def is_beside(size: int) -> bool:
        place = bisect_left(MEASURED_ROWS, size)
        at_it = MEASURED_ROWS[place] == size
        return place in outliers or (not at_it and place - 1 in outliers)

    return [
        round(curve.at(size)) if is_beside(size) else was for size, was in by_rows.items()
    ], len(outliers)


def _kept(measured: Sequence[int]) -> list[int]:
    """What does not stand out, nor among what is left without those that do."""
    kept = list(range(len(measured)))
    while True:
        left = [i for place, i in enumerate(kept) if not _stands_out(measured, kept, place)]
        if left == kept:
            return kept
        kept = left


def _stands_out(measured: Sequence[int], kept: Sequence[int], place: int) -> bool:
    """The one at a ``place`` in what is ``kept`` so far."""
    size = MEASURED_ROWS[kept[place]]
    is_behind_tile = size in _BEHIND_TILES
    if (is_behind_tile and size >= _LARGE_ROWS) or size == MEASURED_ROWS[-1]:
        return False
    sides = [kept[max(0, place - _BESIDE) : place], kept[place + 1 : place + 1 + _BESIDE]]
    shortest = [min(measured[i] for i in side) for side in sides if side]
    usual = max(shortest)
    alike = _ALIKE_BEHIND_TILES if is_behind_tile else _ALIKE
    return usual <= alike * min(shortest) and measured[kept[place]] > _STANDS_OUT * usual

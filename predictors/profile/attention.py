"""Attention as it was profiled: of one prefill beside decodes that are all alike."""

from __future__ import annotations

from collections.abc import Sequence

from warpserve.predictors.mixed import Prefill
from warpserve.predictors.profile.files import Profile
from warpserve.predictors.profile.grid import Grid


class Attention:
    """Of all layers. Decodes of different contexts are taken for as many of the mean."""

    def __init__(self, profile: Profile, layers: int) -> None:
        self._grid = Grid(profile.attention)
        self._layers = layers
        self.most: tuple[int, ...] = tuple(map(max, zip(*profile.attention, strict=True)))
        """Of new and cached tokens of a prefill, decodes, and their context."""

    def prefills_ns(self, prefills: Sequence[Prefill]) -> float:
        """Several are like one of all their tokens, without the pairs that they do not have."""
        new, cached = as_one(prefills)
        one_ns = self._grid.at((new, cached, 0, 0))
        if len(prefills) > 1:
            start_ns = min(self._grid.at((1, 0, 0, 0)), one_ns)
            share = sum(_pairs(*each) for each in prefills) / _pairs(new, cached)
            one_ns = start_ns + (one_ns - start_ns) * share
        return self._layers * one_ns

    def alone_ns(self, contexts: Sequence[int]) -> float:
        """Of decodes without prefills."""
        count = len(contexts)
        return self._layers * self._grid.at((0, 0, count, sum(contexts) / count))

    def decodes_ns(
        self, prefills: Sequence[Prefill], contexts: Sequence[int], alone_ns: float
    ) -> float:
        """Beside prefills.

        Each decode gets as many thread blocks as the longest prefill has tiles (mixed.py).
        """
        del alone_ns  # beside prefills, too, decodes were measured
        new, cached = max(prefills)
        count = len(contexts)
        both_ns = self._grid.at((new, cached, count, sum(contexts) / count))
        return max(0.0, self._layers * (both_ns - self._grid.at((new, cached, 0, 0))))


def as_one(prefills: Sequence[Prefill]) -> tuple[int, float]:
    """New and cached tokens of a prefill that reads as many cached tokens for its new ones."""
    new = sum(each for each, _ in prefills)
    return new, sum(each * cached for each, cached in prefills) / new


def _pairs(new: int, cached: float) -> float:
    """Of a new token and one that it looks at."""
    return new * (cached + (new + 1) / 2)

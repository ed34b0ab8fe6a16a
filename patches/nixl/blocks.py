"""Descriptors: which blocks of an agent's memory a transfer is about."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

_OF_HOST = "DRAM"
_COUNT = 4
"""The column of an array of runs that has how many equal blocks each run has."""


class Blocks:
    """Of memory on a GPU only the sizes count."""

    def __init__(self, descriptors: Sequence[Any] | NDArray[Any], memory: str | None) -> None:
        """``descriptors``: rows of address, bytes and device, or, as an array, runs of blocks, with
        stride and count behind these.
        """
        if isinstance(descriptors, np.ndarray):
            self._bytes = descriptors[:, 1].astype(np.int64)
            has_runs = descriptors.shape[1] > _COUNT
        else:
            self._bytes = np.fromiter((row[1] for row in descriptors), np.int64, len(descriptors))
            has_runs = False
        self._ends = np.cumsum(descriptors[:, _COUNT], dtype=np.int64) if has_runs else None  # type: ignore[call-overload]
        self.host_addresses: list[int] = []
        if memory == _OF_HOST:
            self.host_addresses = [int(row[0]) for row in descriptors]

    def sizes(self, indices: Sequence[int] | NDArray[Any] | None = None) -> NDArray[np.int64]:
        """In bytes, of the blocks with these numbers, or of all."""
        if indices is None:
            return self._bytes
        numbers = np.asarray(indices, dtype=np.int64)
        runs = numbers if self._ends is None else np.searchsorted(self._ends, numbers, "right")
        return self._bytes[runs]


class PreparedBlocks(NamedTuple):
    """Blocks, and whose they are: that agent's, or one's own where it is named otherwise."""

    agent: str
    blocks: Blocks

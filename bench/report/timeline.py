"""Curves over virtual time, from a run's folder."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from warpserve.bench.results import RequestResult
from warpserve.json_lines import complete_lines

Curve = NDArray[np.float64]


class Sampled(NamedTuple):
    """A curve: times in s from the first request on, values."""

    times_s: Curve
    values: Curve


def first_sent_s(requests: Sequence[RequestResult]) -> float:
    """The origin of all curves, by the session's CLOCK_MONOTONIC."""
    return min((request.start_s for request in requests), default=0.0)


def read_samples(path: Path) -> list[dict[str, Any]]:
    """What the scraper wrote; nothing where it did not."""
    if not path.exists():
        return []
    return [json.loads(line) for line in complete_lines(path.read_text())]


def sampled(
    samples: Sequence[dict[str, Any]], metric: str, origin_s: float, label: str = ""
) -> Sampled | None:
    """The sum over all labels of ``metric``, from the last sample before ``origin_s`` on.

    ``label``: as in ``tier="host"``; only where it is so. None where the engine does not have it.
    """
    times_s, values = [], []
    for sample in samples:
        found = [
            value
            for name, value in sample["metrics"].items()
            if name.split("{")[0] == metric and label in name
        ]
        if found:
            times_s.append(sample["time_ns"] / 1e9 - origin_s)
            values.append(sum(found))
    if not times_s:
        return None
    first = max(0, int(np.searchsorted(times_s, 0.0, side="right")) - 1)
    return Sampled(np.asarray(times_s[first:]), np.asarray(values[first:]))


def output_tokens_per_s(requests: Sequence[RequestResult], bin_s: float = 1.0) -> Sampled:
    """Tokens that reached clients, in bins of ``bin_s``, from the first request on."""
    origin_s = first_sent_s(requests)
    arrivals = [arrival for request in requests for arrival in _token_times(request, origin_s)]
    if not arrivals:
        return Sampled(np.zeros(0), np.zeros(0))
    times_s, tokens = np.asarray(arrivals).T
    bins = int(times_s.max() // bin_s) + 1
    counts, edges = np.histogram(times_s, bins, range=(0.0, bins * bin_s), weights=tokens)
    return Sampled(edges[:-1], counts / bin_s)


def _token_times(request: RequestResult, origin_s: float) -> list[tuple[float, float]]:
    """When each chunk came, and how many tokens it is taken to have had.

    No client tells that: the first has one, as it comes at once, and the others have as many as
    each other.
    """
    if request.ttft_s is None:
        return []
    times_s = np.cumsum([request.start_s - origin_s + request.ttft_s, *request.itl_s])
    later = len(request.itl_s)
    first_tokens = 1.0 if later else float(request.output_tokens)
    later_tokens = (request.output_tokens - first_tokens) / max(1, later)
    return list(zip(times_s.tolist(), [first_tokens, *[later_tokens] * later], strict=True))

"""Curves over virtual time, from a run's folder."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from warpserve.bench.results import RequestResult

Curve = NDArray[np.float64]


class Sampled(NamedTuple):
    """A metric of the engine: times in s from its first sample, values."""

    times_s: Curve
    values: Curve


def sampled(path: Path, metric: str) -> Sampled | None:
    """The sum over all labels of ``metric``; None where the engine does not have it."""
    if not path.exists():
        return None
    samples = [json.loads(line) for line in path.read_text().splitlines()]
    times_s, values = [], []
    for sample in samples:
        found = [v for name, v in sample["metrics"].items() if name.split("{")[0] == metric]
        if found:
            times_s.append(sample["time_ns"] / 1e9)
            values.append(sum(found))
    if not times_s:
        return None
    return Sampled(np.asarray(times_s) - times_s[0], np.asarray(values))


def output_tokens_per_s(requests: Sequence[RequestResult], bin_s: float = 1.0) -> Sampled:
    """Tokens that reached clients, in bins of ``bin_s``, from the first request on."""
    arrivals = [arrival for request in requests for arrival in _token_times(request)]
    if not arrivals:
        return Sampled(np.zeros(0), np.zeros(0))
    bins = int(max(arrivals) // bin_s) + 1
    counts, edges = np.histogram(arrivals, bins=bins, range=(0.0, bins * bin_s))
    return Sampled(edges[:-1], counts / bin_s)


def _token_times(request: RequestResult) -> list[float]:
    if request.ttft_s is None:
        return []
    steps = np.cumsum([request.start_s + request.ttft_s, *request.itl_s])
    return [float(step) for step in steps]

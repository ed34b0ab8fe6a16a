"""How the serving points were measured, as far as that is known."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import NamedTuple

from tests.benchmarks.predictors.serving_points import Cell
from tests.benchmarks.predictors.steady_state import Load
from warpserve.bench.results import RequestResult


class Client(NamedTuple):
    """Keeps as many requests under way as a point says."""

    requests_a_place: int
    lengths: float
    """The mean of lengths, as a part of a point's."""
    spread: float
    """Of lengths around that: alike, requests would all come and go together."""
    counts_all: bool
    """Means are over all requests, and not over those of a steady load."""
    engine_flags: tuple[str, ...] = ()

    def workload(self, load: Load) -> str:
        means = [round(self.lengths * size) for size in (load.input_tokens, load.output_tokens)]
        return f"random:input={means[0]},output={means[1]},range={self.spread}"

    def ttft_s(self, ttfts_s: Sequence[float]) -> float:
        """The mean where all count, else the median."""
        return statistics.mean(ttfts_s) if self.counts_all else statistics.median(ttfts_s)

    def counted(self, requests: Sequence[RequestResult], load: Load) -> list[RequestResult]:
        return list(requests) if self.counts_all else steady(requests, load.concurrency)


UNKNOWN = Client(requests_a_place=4, lengths=1.0, spread=0.2, counts_all=False)
# Lengths are uniform from 0.8 of a point's to all of it, and figures are means: README.md of
# github.com/SemiAnalysisAI/InferenceX (there InferenceMAX) of August 2025. That keys and values
# were in fp8 follows from TTFTs of requests that queue for them; the quantised weights say so, too.
INFERENCEX = Client(
    requests_a_place=10,
    lengths=0.9,
    spread=0.111,
    counts_all=True,
    engine_flags=("--kv-cache-dtype", "fp8"),
)


def client_of(cell: Cell) -> Client:
    return INFERENCEX if cell.model_name == "llama-3.1-70b" else UNKNOWN


def steady(requests: Sequence[RequestResult], concurrency: int) -> list[RequestResult]:
    """Without the first wave, whose prefills delay nobody's decoding, and without the last, beside
    which ever fewer are under way.
    """
    return sorted(requests, key=lambda request: request.start_s)[concurrency:-concurrency]

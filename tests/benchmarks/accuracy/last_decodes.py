"""Steps of decodes alone, beside what predictors say: the end of each real run.

After the last first token of a run nothing is prefilled, and each step gives each request a token,
until it has its last. Between two last tokens that are known there is a whole number of steps; an
interval counts where only one number makes them anywhere near as long as predicted.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from tests.benchmarks.accuracy.cases import Case
from tests.benchmarks.accuracy.excess import Step, excess_table
from tests.benchmarks.predictors.real_runs import token_instants_s
from warpserve.bench.calibration.observations import decodes
from warpserve.bench.real.read import read_run
from warpserve.predictors.predictor import Predictor

_NEAR = (0.92, 1.13)
"""Measured over predicted: what one step more or less puts outside."""
_UP_TO = (8, 16, 32, 64, 128)
"""Requests of a row: tiles of matrices have as many rows."""


class Ending(NamedTuple):
    """A request that was decoding when the last of all prefills was done."""

    end_s: float
    context: int
    """At its end."""


def endings(folder: Path) -> tuple[list[Ending], float]:
    """And when the last first token was there."""
    begin_s, found = 0.0, []
    for request in read_run(folder).requests:
        first_s, last_s = token_instants_s(request)
        begin_s = max(begin_s, first_s)
        context = (request.input_tokens or 0) + (request.output_tokens or 0)
        found.append(Ending(last_s, context))
    return [each for each in found if each.end_s > begin_s], begin_s


def last_steps(found: Sequence[Ending], begin_s: float, predictor: Predictor) -> Iterator[Step]:
    """From the last one backwards, by which contexts are known."""
    ends_s = sorted({begin_s, *(each.end_s for each in found)})
    steps_left = dict.fromkeys(found, 0)
    for start_s, end_s in reversed(list(pairwise(ends_s))):
        running = [each for each in found if each.end_s >= end_s]
        batch = decodes([each.context - steps_left[each] for each in running])
        measured_ms = (end_s - start_s) * 1e3
        predicted_ms = predictor.predict(batch).duration_ns / 1e6
        low, high = (measured_ms / predicted_ms / factor for factor in reversed(_NEAR))
        counts = [count for count in range(1, math.ceil(high)) if low <= count <= high]
        if len(counts) == 1:
            yield Step(len(running), measured_ms / counts[0], predicted_ms)
        for each in running:
            steps_left[each] += counts[0] if counts else round(measured_ms / predicted_ms)


def markdown() -> Iterator[str]:
    def steps_of(case: Case, predictor: Predictor) -> Iterator[Step]:
        return last_steps(*endings(case.real), predictor)

    return excess_table(_UP_TO, steps_of, digits=1)

"""How much of a run's TTFT and TPOT is what prefills add to steps: it grows with `prefill_scale`.

In a closed loop steps that take longer change no batch: a request is sent when another's step ends.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

from warpserve.predictors.predictor import Predictor
from warpserve.predictors.prefills import added_by_prefills_ns
from warpserve.predictors.replay import RecordedStep


class Instants(NamedTuple):
    """Of one request: when it was sent, and when its first and last token came."""

    sent_ns: int
    first_ns: int
    last_ns: int
    output_tokens: int


class PrefillTime:
    """What prefills added to the steps of one worker, until any instant."""

    def __init__(self, steps: Sequence[RecordedStep], predictor: Predictor) -> None:
        steps = sorted(steps, key=lambda step: step.start_ns)
        self._starts_ns = [step.start_ns for step in steps]
        self._durations_ns = [step.prediction.duration_ns for step in steps]
        self._added_ns = [
            added_by_prefills_ns(predictor, step.batch, step.prediction.duration_ns)
            for step in steps
        ]
        self._until_ns = [0, *accumulate(self._added_ns)]

    def of_ttft_ns(self, request: Instants) -> float:
        return self._until(request.first_ns) - self._until(request.sent_ns)

    def of_tpot_ns(self, request: Instants) -> float:
        """0 of a request with one token."""
        added_ns = self._until(request.last_ns) - self._until(request.first_ns)
        return added_ns / max(1, request.output_tokens - 1)

    def _until(self, instant_ns: int) -> float:
        """Steps that go on then count by the part of them that is over."""
        index = bisect_right(self._starts_ns, instant_ns) - 1
        if index < 0:
            return 0.0
        part = (instant_ns - self._starts_ns[index]) / self._durations_ns[index]
        return self._until_ns[index] + min(1.0, part) * self._added_ns[index]

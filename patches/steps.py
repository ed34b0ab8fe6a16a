"""Steps as work on the GPU's stream."""

from __future__ import annotations

import queue
import threading
from collections import deque
from typing import NamedTuple

import torch

from warpserve.patches.step_log import StepLog
from warpserve.patches.virtual_gpu import enqueue, instant_of
from warpserve.predictors.batch import Batch
from warpserve.predictors.predictor import Prediction


class _Step(NamedTuple):
    batch: Batch
    request_ids: list[str]
    prediction: Prediction
    begin: torch.cuda.Event
    end: torch.cuda.Event
    begun_ns: int | None


class StepStream:
    """One step after the other, each as long as predicted, logged as soon as its times are known.

    They are known at once, but where they depend on other processes: a pipeline stage's. Those are
    waited for in a thread aside, as nobody may ask for what a rank has computed, and engines kill
    their workers where they end.
    """

    def __init__(self, log: StepLog) -> None:
        self._log = log
        self._unlogged: deque[_Step] = deque()
        self._lock = threading.Lock()
        self._last_end_ns: int | None = None
        self._awaited: queue.SimpleQueue[torch.cuda.Event] | None = None

    @property
    def last_end_ns(self) -> int | None:
        """Of the last step, on CLOCK_MONOTONIC; None if there is none, or others decide on it."""
        with self._lock:
            return None if self._unlogged else self._last_end_ns

    def run(
        self,
        batch: Batch,
        request_ids: list[str],
        prediction: Prediction,
        begun_ns: int | None = None,
    ) -> torch.cuda.Event:
        """Returns at once the event at its end: the step begins and ends on the current stream.

        ``begun_ns``: when it has begun, if what is on the stream by now is a part of it.
        """
        stream = torch.cuda.current_stream()
        begin = _recorded(stream)
        duration_ns = prediction.duration_ns
        if begun_ns is not None and (begin_ns := instant_of(begin.cuda_event)) is not None:
            duration_ns = max(0, begun_ns + duration_ns - begin_ns)
        enqueue(stream.cuda_stream, duration_ns)
        end = _recorded(stream)
        with self._lock:
            self._unlogged.append(_Step(batch, request_ids, prediction, begin, end, begun_ns))
        self.log_known()
        if self.last_end_ns is None:
            self._await(end)
        return end

    def wait(self, duration_ns: int) -> None:
        """Nothing happens on the stream for as long."""
        enqueue(torch.cuda.current_stream().cuda_stream, duration_ns)

    def log_known(self) -> None:
        """May be called from any thread."""
        with self._lock:
            while self._unlogged:
                step = self._unlogged[0]
                begin_ns = step.begun_ns or instant_of(step.begin.cuda_event)
                end_ns = instant_of(step.end.cuda_event)
                if begin_ns is None or end_ns is None:
                    return
                self._log.write(step.batch, step.request_ids, step.prediction, begin_ns, end_ns)
                self._unlogged.popleft()
                self._last_end_ns = end_ns

    def _await(self, end: torch.cuda.Event) -> None:
        if self._awaited is None:
            self._awaited = queue.SimpleQueue()
            threading.Thread(target=self._log_awaited, args=(self._awaited,), daemon=True).start()
        self._awaited.put(end)

    def _log_awaited(self, awaited: queue.SimpleQueue[torch.cuda.Event]) -> None:
        while True:
            awaited.get().synchronize()
            self.log_known()


def _recorded(stream: torch.cuda.Stream) -> torch.cuda.Event:
    event = torch.cuda.Event(enable_timing=True)
    event.record(stream)
    return event

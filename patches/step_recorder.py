"""Records the steps of an engine that nobody stands in for, on a real GPU: `warpserve record`.

A step lasts from the first of its events to the last: work of the GPU, and gaps in which it waited
for the host to launch more. The engine never waits for the recorder, nor the recorder for the GPU:
a step is written when the GPU has passed it. Only `finish` waits.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

import torch

from warpserve.patches.step_log import StepLog
from warpserve.predictors.batch import Batch
from warpserve.predictors.predictor import Prediction, Provenance

_LOOK_S = 0.5
"""How often the GPU is asked whether it has passed the last step, while no other follows."""


class Described(NamedTuple):
    batch: Batch
    request_ids: list[str]


Describe = Callable[[Any], Described | None]
"""None: nothing is computed."""


class _Launched(NamedTuple):
    """What the scheduler said, and the events around what was launched for it, if anything was."""

    scheduled: Any
    begin: torch.cuda.Event | None = None
    end: torch.cuda.Event | None = None


class StepRecorder:
    """Of one worker, on the stream that is current where it steps.

    The worker's thread records events; all else happens in a thread of its own, which has its turn
    while the worker's waits for the GPU.
    """

    def __init__(self, describe: Describe, log: StepLog) -> None:
        """``describe``: called in that thread with what `end` and `without_step` were given."""
        self._queue: SimpleQueue[_Launched | None] = SimpleQueue()
        self._last: _Launched | None = None
        writer = _Writer(describe, log)
        self._thread = threading.Thread(target=writer.write_all, args=(self._queue,), daemon=True)
        self._thread.start()

    def begin(self) -> torch.cuda.Event:
        """Before a step is launched."""
        self.complete()
        return _recorded()

    def end(self, scheduled: Any, begin: torch.cuda.Event) -> None:
        """After it was launched."""
        self._last = _Launched(scheduled, begin, _recorded())

    def prolong(self) -> None:
        """The step that was launched last has launched more."""
        if self._last is not None and self._last.end is not None:
            self._last.end.record()

    def without_step(self, scheduled: Any) -> None:
        """Instead of begin and end, where nothing is launched."""
        self.complete()
        self._last = _Launched(scheduled)

    def complete(self) -> None:
        """Nothing more is launched for the last step."""
        if not self._thread.is_alive():
            raise RuntimeError("warpserve record: what writes steps has failed, see above")
        if self._last is not None:
            self._queue.put(self._last)
            self._last = None

    def finish(self) -> None:
        """Waits for the GPU, and until all is written."""
        if self._thread.is_alive():
            self.complete()
            self._queue.put(None)
            self._thread.join()


class _Step(NamedTuple):
    described: Described
    begin: torch.cuda.Event
    end: torch.cuda.Event


class _Writer:
    """Makes lines of what was launched, as soon as the GPU has passed it."""

    def __init__(self, describe: Describe, log: StepLog) -> None:
        self._describe = describe
        self._log = log
        self._pending: deque[_Step] = deque()
        self._passed = _recorded()
        self._passed.synchronize()
        self._passed_ns = time.monotonic_ns()

    def write_all(self, queue: SimpleQueue[_Launched | None]) -> None:
        """Until None comes."""
        while True:
            try:
                launched = queue.get(timeout=_LOOK_S if self._pending else None)
            except Empty:
                self._write_passed()
                continue
            if launched is None:
                break
            self._take(launched)
            self._write_passed()
        for step in self._pending:
            step.end.synchronize()
            self._write(step)

    def _write_passed(self) -> None:
        while self._pending and self._pending[0].end.query():
            self._write(self._pending.popleft())

    def _take(self, launched: _Launched) -> None:
        scheduled, begin, end = launched
        described = self._describe(scheduled)
        if described is not None and begin is not None and end is not None:
            self._pending.append(_Step(described, begin, end))

    def _write(self, step: _Step) -> None:
        begin_ns = self._passed_ns + _between_ns(self._passed, step.begin)
        duration_ns = max(1, _between_ns(step.begin, step.end))
        self._passed, self._passed_ns = step.end, begin_ns + duration_ns
        prediction = Prediction(duration_ns, Provenance.MEASURED)
        self._log.write(*step.described, prediction, begin_ns, self._passed_ns)


def _recorded() -> torch.cuda.Event:
    event = torch.cuda.Event(enable_timing=True)
    event.record()
    return event


def _between_ns(first: torch.cuda.Event, second: torch.cuda.Event) -> int:
    elapsed_ms: float = first.elapsed_time(second)
    return round(elapsed_ms * 1e6)

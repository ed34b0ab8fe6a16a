"""Records the steps of an unmodified vLLM: `warpserve record`.

| symbol | how | why |
|---|---|---|
| ``Worker.compile_or_warm_up_model`` | afterwards, begins to record | what is before is no step |
| ``Worker.execute_model`` | an event before and one behind | the GPU's time for the forward |
| ``Worker.sample_tokens`` | the event behind once more | sampling is part of the step |
| ``Worker.shutdown`` | before, writes what is left | the last steps are known only then |

A step lasts from the first of its events to the last: work of the GPU, and gaps in which it waited
for the host to launch more. The engine never waits for the recorder, nor the recorder for the GPU:
a step is written when a later one is launched and the GPU has passed it. Only `shutdown` waits.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from pathlib import Path
from queue import SimpleQueue
from types import ModuleType
from typing import Any, NamedTuple

import torch

from warpserve.patches.step_log import StepLog
from warpserve.patches.versions import require_attributes
from warpserve.patches.vllm.deployment import name_of
from warpserve.patches.vllm.progress import Progress
from warpserve.patches.vllm.recording import RECORDING, write_recording
from warpserve.patches.vllm.requests import logged_as
from warpserve.predictors.batch import Batch
from warpserve.predictors.predictor import Prediction, Provenance

_OF_WORKER = ("compile_or_warm_up_model", "execute_model", "sample_tokens", "shutdown")


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

    def __init__(self, runner: Any, log: StepLog) -> None:
        """``runner``: the worker's model runner, which pads batches."""
        self._queue: SimpleQueue[_Launched | None] = SimpleQueue()
        self._last: _Launched | None = None
        writer = _Writer(runner, log)
        self._thread = threading.Thread(target=writer.write_all, args=(self._queue,), daemon=True)
        self._thread.start()

    def begin(self) -> torch.cuda.Event:
        """Before a step is launched."""
        self._hand_over()
        return _recorded()

    def end(self, scheduled: Any, begin: torch.cuda.Event) -> None:
        """After it was launched. ``scheduled``: its SchedulerOutput."""
        self._last = _Launched(scheduled, begin, _recorded())

    def prolong(self) -> None:
        """The step that was launched last has launched more."""
        if self._last is not None and self._last.end is not None:
            self._last.end.record()

    def without_step(self, scheduled: Any) -> None:
        """Instead of begin and end, where nothing is launched."""
        self._hand_over()
        self._last = _Launched(scheduled)

    def finish(self) -> None:
        """Waits for the GPU, and until all is written."""
        if self._thread.is_alive():
            self._hand_over()
            self._queue.put(None)
            self._thread.join()

    def _hand_over(self) -> None:
        """The step before is complete: nothing more is launched for it."""
        if not self._thread.is_alive():
            raise RuntimeError("warpserve record: what writes steps has failed, see above")
        if self._last is not None:
            self._queue.put(self._last)
            self._last = None


class _Step(NamedTuple):
    batch: Batch
    request_ids: list[str]
    begin: torch.cuda.Event
    end: torch.cuda.Event


class _Writer:
    """Makes lines of what was launched, as soon as the GPU has passed it."""

    def __init__(self, runner: Any, log: StepLog) -> None:
        self._runner = runner
        self._log = log
        self._progress = Progress()
        self._pending: deque[_Step] = deque()
        self._passed = _recorded()
        self._passed.synchronize()
        self._passed_ns = time.monotonic_ns()

    def write_all(self, queue: SimpleQueue[_Launched | None]) -> None:
        """Until None comes."""
        while (launched := queue.get()) is not None:
            self._take(launched)
            while self._pending and self._pending[0].end.query():
                self._write(self._pending.popleft())
        for step in self._pending:
            step.end.synchronize()
            self._write(step)

    def _take(self, launched: _Launched) -> None:
        scheduled, begin, end = launched
        self._progress.update(scheduled)
        if begin is not None and end is not None:
            batch = self._progress.batch(scheduled, self._runner)
            request_ids = list(map(logged_as, scheduled.num_scheduled_tokens))
            self._pending.append(_Step(batch, request_ids, begin, end))

    def _write(self, step: _Step) -> None:
        begin_ns = self._passed_ns + _between_ns(self._passed, step.begin)
        duration_ns = max(1, _between_ns(step.begin, step.end))
        self._passed, self._passed_ns = step.end, begin_ns + duration_ns
        prediction = Prediction(duration_ns, Provenance.MEASURED)
        self._log.write(step.batch, step.request_ids, prediction, begin_ns, self._passed_ns)


def patch_worker(module: ModuleType) -> None:
    """``module``: vllm.v1.worker.gpu_worker. Raises RuntimeError where it lacks a symbol."""
    require_attributes(module, ("Worker", "get_pp_group"))
    worker_class = module.Worker
    require_attributes(worker_class, _OF_WORKER)
    warm_up, execute_model, sample_tokens, shutdown = (
        getattr(worker_class, name) for name in _OF_WORKER
    )
    folder = Path(os.environ[RECORDING])

    def warm_up_and_begin(self: Any) -> Any:
        _require_recordable(self.vllm_config)
        warmed = warm_up(self)
        # Between a later stage's events lies its wait for the stage before.
        if module.get_pp_group().is_first_rank:
            write_recording(folder, self)
            log = StepLog.in_folder(folder / "steps", name_of(self))
            self.step_recorder = StepRecorder(self.model_runner, log)
        return warmed

    def execute_between_events(self: Any, scheduled: Any) -> Any:
        recorder: StepRecorder | None = getattr(self, "step_recorder", None)
        if recorder is None:
            return execute_model(self, scheduled)
        if scheduled.total_num_scheduled_tokens == 0:
            recorder.without_step(scheduled)
            return execute_model(self, scheduled)
        begin = recorder.begin()
        output = execute_model(self, scheduled)
        recorder.end(scheduled, begin)
        return output

    def sample_and_prolong(self: Any, grammar: Any) -> Any:
        output = sample_tokens(self, grammar)
        if (recorder := getattr(self, "step_recorder", None)) is not None:
            recorder.prolong()
        return output

    def finish_and_shut_down(self: Any) -> Any:
        if (recorder := getattr(self, "step_recorder", None)) is not None:
            recorder.finish()
        return shutdown(self)

    worker_class.compile_or_warm_up_model = warm_up_and_begin
    worker_class.execute_model = execute_between_events
    worker_class.sample_tokens = sample_and_prolong
    worker_class.shutdown = finish_and_shut_down


def _require_recordable(config: Any) -> None:
    """``config``: a VllmConfig."""
    if config.parallel_config.data_parallel_size > 1 and config.model_config.is_moe:
        raise NotImplementedError(
            "warpserve record cannot tell what ranks of a mixture of experts pad their batches to "
            "under data parallelism: record one with tensor parallelism"
        )


def _recorded() -> torch.cuda.Event:
    event = torch.cuda.Event(enable_timing=True)
    event.record()
    return event


def _between_ns(first: torch.cuda.Event, second: torch.cuda.Event) -> int:
    elapsed_ms: float = first.elapsed_time(second)
    return round(elapsed_ms * 1e6)

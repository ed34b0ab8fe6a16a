"""Records the steps of an unmodified vLLM: `warpserve record`.

| symbol | how | why |
|---|---|---|
| ``Worker.compile_or_warm_up_model`` | afterwards, begins to record | what is before is no step |
| ``Worker.execute_model`` | an event before and one behind | the GPU's time for the forward |
| ``Worker.sample_tokens`` | the event behind once more | sampling is part of the step |
| ``Worker.shutdown`` | before, writes what is left | the last steps are known only then |

A step lasts from the first of its events to the last: work of the GPU, and gaps in which it waited
for the host to launch more. Nothing here waits for the GPU. A step is written when a later one is
launched and the GPU has passed it, so that only `shutdown` synchronises.
"""

from __future__ import annotations

import os
import time
from collections import deque
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import torch

from warpserve.patches.step_log import StepLog
from warpserve.patches.versions import require_attributes
from warpserve.patches.vllm.progress import Progress
from warpserve.patches.vllm.recording import RECORDING, write_recording
from warpserve.predictors.batch import Batch
from warpserve.predictors.predictor import Prediction, Provenance

_OF_WORKER = ("compile_or_warm_up_model", "execute_model", "sample_tokens", "shutdown")


class _Step(NamedTuple):
    batch: Batch
    request_ids: list[str]
    begin: torch.cuda.Event
    end: torch.cuda.Event


class StepRecorder:
    """Of one worker, on the stream that is current where it steps."""

    def __init__(self, runner: Any, log: StepLog) -> None:
        """``runner``: the worker's model runner, which pads batches."""
        self._runner = runner
        self._log = log
        self._progress = Progress()
        self._pending: deque[_Step] = deque()
        self._last = _recorded()
        self._last.synchronize()
        self._last_ns = time.monotonic_ns()

    def begin(self) -> torch.cuda.Event:
        """Before a step is launched."""
        self._write_passed()
        return _recorded()

    def end(self, scheduled: Any, begin: torch.cuda.Event) -> None:
        """After it was launched. ``scheduled``: its SchedulerOutput."""
        end = _recorded()
        batch = self._progress.batch(scheduled, self._runner)
        self._pending.append(_Step(batch, list(scheduled.num_scheduled_tokens), begin, end))

    def prolong(self) -> None:
        """The step that was launched last has launched more."""
        if self._pending:
            self._pending[-1].end.record()

    def finish(self) -> None:
        """Waits for the GPU, and writes what is left."""
        if self._pending:
            self._pending[-1].end.synchronize()
            self._write_passed()

    def update(self, scheduled: Any) -> None:
        """What the scheduler says of requests, also where it schedules no step."""
        self._progress.update(scheduled)

    def _write_passed(self) -> None:
        while self._pending and self._pending[0].end.query():
            step = self._pending.popleft()
            begin_ns = self._last_ns + _between_ns(self._last, step.begin)
            duration_ns = max(1, _between_ns(step.begin, step.end))
            self._last, self._last_ns = step.end, begin_ns + duration_ns
            prediction = Prediction(duration_ns, Provenance.MEASURED)
            self._log.write(step.batch, step.request_ids, prediction, begin_ns, self._last_ns)


def patch_worker(module: ModuleType) -> None:
    """``module``: vllm.v1.worker.gpu_worker. Raises RuntimeError where it lacks a symbol."""
    require_attributes(module, ("Worker",))
    worker_class = module.Worker
    require_attributes(worker_class, _OF_WORKER)
    warm_up, execute_model, sample_tokens, shutdown = (
        getattr(worker_class, name) for name in _OF_WORKER
    )
    folder = Path(os.environ[RECORDING])

    def warm_up_and_begin(self: Any) -> Any:
        _require_recordable(self.vllm_config)
        warmed = warm_up(self)
        write_recording(folder, self)
        log = StepLog.in_folder(folder / "steps")
        self.step_recorder = StepRecorder(self.model_runner, log)
        return warmed

    def execute_between_events(self: Any, scheduled: Any) -> Any:
        recorder: StepRecorder | None = getattr(self, "step_recorder", None)
        if recorder is None:
            return execute_model(self, scheduled)
        recorder.update(scheduled)
        if scheduled.total_num_scheduled_tokens == 0:
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

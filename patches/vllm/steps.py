"""Steps as work on the GPU's stream."""

from __future__ import annotations

import time
from typing import Any

import torch
from vllm.v1.outputs import AsyncModelRunnerOutput, ModelRunnerOutput

from warpserve.patches.step_log import StepLog
from warpserve.patches.virtual_gpu import enqueue
from warpserve.predictors.batch import Batch
from warpserve.predictors.predictor import Predictor


class StepStream:
    """One step after the other, each as long as predicted."""

    def __init__(self, predictor: Predictor, log: StepLog) -> None:
        self._predictor = predictor
        self._log = log
        self._free_ns = 0

    def run(self, batch: Batch, request_ids: list[str]) -> None:
        """Returns at once: the step ends on the stream."""
        prediction = self._predictor.predict(batch)
        enqueue(torch.cuda.current_stream().cuda_stream, prediction.duration_ns)
        start_ns = max(self._free_ns, time.monotonic_ns())
        self._free_ns = start_ns + prediction.duration_ns
        self._log.write(batch, request_ids, prediction, start_ns, self._free_ns)

    def end(self) -> torch.cuda.Event:
        """Reached when all steps so far have ended."""
        event = torch.cuda.Event()
        event.record()
        return event


class VirtualOutput(AsyncModelRunnerOutput):  # type: ignore[misc]
    """A step's tokens, there when the step has ended."""

    def __init__(
        self, request_ids: list[str], token_ids: list[list[int]], end: torch.cuda.Event
    ) -> None:
        self._output = ModelRunnerOutput(
            req_ids=request_ids,
            req_id_to_index={request_id: i for i, request_id in enumerate(request_ids)},
            sampled_token_ids=token_ids,
        )
        self._end = end

    def get_output(self) -> Any:
        self._end.synchronize()
        return self._output

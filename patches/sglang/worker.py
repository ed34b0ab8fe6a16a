"""SGLang's tensor-parallel worker, whose steps take their predicted time."""

from __future__ import annotations

import time
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import torch
from sglang.srt.layers.logits_processor import LogitsProcessorOutput
from sglang.srt.managers.utils import GenerationBatchResult

from warpserve.patches.sglang.batches import loras_of, steps_of
from warpserve.patches.sglang.control import on_device
from warpserve.patches.sglang.deployment import deployment_of, name_of_this_worker
from warpserve.patches.sglang.padding import Padding
from warpserve.patches.sglang.requests import Tokens, logged_as
from warpserve.patches.sglang.support import require_supported
from warpserve.patches.step_log import StepLog
from warpserve.patches.steps import StepStream
from warpserve.patches.versions import require_attributes
from warpserve.patches.virtual_gpu import instant_of
from warpserve.predictors.batch import Batch
from warpserve.predictors.spec import predictor_of_session

_INPUTS_NS = 100_000
"""What a step's inputs, some kB, take at most on their way to the GPU: longer is another wait."""


@dataclass
class VirtualResult(GenerationBatchResult):  # type: ignore[misc]
    """Tokens that the host knows, there when what is on the stream by now has ended."""

    host_token_ids: torch.Tensor | None = None

    def copy_to_cpu(self, *arguments: Any, **options: Any) -> None:
        """No copy is needed, and so it takes no time: that of a real one is part of the step."""
        if self.host_token_ids is not None:
            self.next_token_ids = self.host_token_ids
        super().copy_to_cpu(*arguments, **options)


class VirtualSteps:
    """What takes the model runner's place in one worker."""

    def __init__(self, worker: Any) -> None:
        """``worker``: a TpModelWorker."""
        self._device = worker.device
        self._predictor = worker.virtual_predictor
        self._tokens = Tokens(worker.model_config.vocab_size)
        self._padding = Padding(worker.model_runner)
        self._stream = StepStream(
            StepLog.of_session(name_of_this_worker(), lambda: self._predictor.lookups)
        )
        self._end: torch.cuda.Event | None = None

    def forward(self, batch: Any) -> VirtualResult:
        """``batch``: a ScheduleBatch."""
        requests = steps_of(batch)
        padded = self._padding.of(batch, sum(request.new_tokens for request in requests))
        if requests:
            step = Batch(requests, padded.tokens, loras_of(batch))
            self._run(step, [logged_as(request.rid) for request in batch.reqs])
        host_token_ids = torch.tensor(self._tokens.of(batch), dtype=torch.int64)
        return VirtualResult(
            logits_output=LogitsProcessorOutput(next_token_logits=None),
            next_token_ids=on_device(host_token_ids, self._device),
            host_token_ids=host_token_ids,
            can_run_cuda_graph=padded.is_graph,
        )

    def _run(self, step: Batch, request_ids: list[str]) -> None:
        self._stream.run(step, request_ids, self._predictor.predict(step), self._begun_ns())
        self._end = torch.cuda.Event(enable_timing=True)
        self._end.record()

    def _begun_ns(self) -> int | None:
        """When this step begins, if its inputs on the stream are all that it has waited for.

        That is when the one before has ended, or now. None: it waits for others.
        """
        ready = torch.cuda.Event(enable_timing=True)
        ready.record()
        ready_ns = instant_of(ready.cuda_event)
        end_ns = 0 if self._end is None else instant_of(self._end.cuda_event)
        if ready_ns is None or end_ns is None:
            return None
        begun_ns = max(end_ns, time.monotonic_ns())
        return begun_ns if 0 <= ready_ns - begun_ns <= _INPUTS_NS else None


def patch_worker(module: ModuleType) -> None:
    """``module``: sglang.srt.managers.tp_worker. Raises RuntimeError where it lacks a symbol."""
    require_attributes(module, ("TpModelWorker",))
    worker_class = module.TpModelWorker
    require_attributes(worker_class, ("_init_model_runner", "forward_batch_generation"))
    init_model_runner = worker_class._init_model_runner

    def init_with_predictor(self: Any) -> None:
        require_supported(self.server_args, self.model_config)
        self.virtual_predictor = predictor_of_session(deployment_of(self))
        init_model_runner(self)

    def forward_virtually(self: Any, batch: Any, *_arguments: Any, **_options: Any) -> Any:
        steps = getattr(self, "virtual_steps", None)
        if steps is None:
            steps = self.virtual_steps = VirtualSteps(self)
        return steps.forward(batch)

    worker_class._init_model_runner = init_with_predictor
    worker_class.forward_batch_generation = forward_virtually

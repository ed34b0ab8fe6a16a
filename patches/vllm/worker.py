"""vLLM's GPU worker, whose steps take their predicted time."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import torch

from warpserve.patches.speculation import Acceptance
from warpserve.patches.step_log import StepLog
from warpserve.patches.steps import StepStream
from warpserve.patches.versions import require_attributes
from warpserve.patches.vllm.compilation import leave_uncompiled
from warpserve.patches.vllm.deployment import deployment_of, name_of
from warpserve.patches.vllm.device_memory import take_memory_of_kernels
from warpserve.patches.vllm.kv_transfer import Transfers
from warpserve.patches.vllm.lock_step import PaddedLockStep, dummy_batch
from warpserve.patches.vllm.logprobs import Logprobs
from warpserve.patches.vllm.pipeline import PipelineStage
from warpserve.patches.vllm.pooling import Pooling
from warpserve.patches.vllm.requests import Requests, steps_of
from warpserve.patches.vllm.steps import VirtualOutput
from warpserve.patches.vllm.support import require_supported
from warpserve.patches.vllm.warm_up import without_kernels
from warpserve.predictors.batch import Batch
from warpserve.predictors.spec import predictor_of_session

_ONCE_WARM = ("execute_model", "sample_tokens", "take_draft_token_ids", "execute_dummy_batch")
_OF_WORKER = ("load_model", "compile_or_warm_up_model", *_ONCE_WARM)


class VirtualSteps:
    """What takes the model runner's place in one worker, from its first real step on."""

    def __init__(self, worker: Any) -> None:
        config = worker.vllm_config
        self._drafts = drafts_of(config)
        self._is_asynchronous = config.scheduler_config.async_scheduling
        vocabulary_size = config.model_config.get_vocab_size()
        self._requests = Requests(vocabulary_size, worker.virtual_acceptance)
        self._logprobs = Logprobs(vocabulary_size)
        self._predictor = worker.virtual_predictor
        self._stream = StepStream(
            StepLog.of_session(name_of(worker), lambda: self._predictor.lookups)
        )
        self._stage = PipelineStage(worker)
        self._lock_step = PaddedLockStep(config)
        self._transfers = Transfers(worker)
        is_pooling = config.model_config.runner_type == "pooling"
        self._pooling = Pooling(config.model_config) if is_pooling else None
        self._runner = worker.model_runner
        self._scheduled: Any = None
        self._has_sampled: list[str] = []

    @property
    def last_end_ns(self) -> int | None:
        """When the steps that have been begun are over, on CLOCK_MONOTONIC; None if unknown."""
        return self._stream.last_end_ns

    def execute_model(self, scheduled: Any) -> Any:
        """``scheduled``: a SchedulerOutput. None where `sample_tokens` comes next."""
        self._requests.update(scheduled)
        self._logprobs.update(scheduled)
        self._stage.take_tokens()
        if scheduled.total_num_scheduled_tokens == 0:
            return self._transfers.without_step(scheduled)
        batch = self._lock_step.pad(self._requests.batch(scheduled, self._runner))
        self._stage.begin()
        with self._transfers.around_step(scheduled):
            self._run(batch, [self._requests[name].logged_as for name in steps_of(scheduled)])
        self._stage.end(batch)
        if self._pooling is not None:
            return self._pool(scheduled, self._pooling)
        self._scheduled = scheduled
        return None

    def sample_tokens(self, grammar: Any) -> Any:
        """``grammar``: a GrammarOutput or None. The tokens, there when the step has ended."""
        scheduled, self._scheduled = self._scheduled, None
        if scheduled is None:
            return self._transfers.only()
        tokens = self._requests.advance(scheduled, grammar)
        self._stage.pass_tokens_back(tokens)
        if not self._stage.is_last:
            return self._transfers.only()
        request_ids = steps_of(scheduled)
        constrained = set(grammar.structured_output_request_ids) if grammar is not None else ()
        self._has_sampled = [
            request_id
            for request_id, sampled in zip(request_ids, tokens, strict=True)
            if sampled and request_id not in constrained
        ]
        logprobs = self._logprobs.of_step(request_ids, tokens)
        return self._there_at_the_end(request_ids, sampled_token_ids=tokens, **logprobs)

    def take_draft_token_ids(self) -> Any:
        """What a drafter proposes after the last step's tokens: DraftTokenIds or None."""
        from vllm.v1.outputs import DraftTokenIds

        if not self._drafts or not self._has_sampled:
            return None
        proposed = self._requests.drafts(self._has_sampled, self._drafts)
        return DraftTokenIds(self._has_sampled, proposed)

    def execute_dummy_batch(self) -> None:
        """The others work on requests, and this rank's experts with them."""
        self._run(self._lock_step.pad(dummy_batch(self._runner)), [])

    def _run(self, batch: Batch, request_ids: list[str]) -> None:
        wait_ns, prediction = self._lock_step.agree(self._predictor.predict(batch))
        if wait_ns > 0:
            self._stream.wait(wait_ns)
        self._stream.run(batch, request_ids, prediction)

    def _pool(self, scheduled: Any, pooling: Pooling) -> Any:
        self._requests.advance(scheduled, grammar=None)
        request_ids = steps_of(scheduled)
        vectors = [pooling.of(self._requests[name]) for name in request_ids]
        return self._there_at_the_end(request_ids, pooler_output=vectors)

    def _there_at_the_end(self, request_ids: list[str], **results: Any) -> Any:
        """``results``: fields of ModelRunnerOutput, in the order of the requests.

        Without asynchronous scheduling a model runner waits for the step itself.
        """
        from vllm.v1.outputs import ModelRunnerOutput

        output = ModelRunnerOutput(
            req_ids=request_ids,
            req_id_to_index={request_id: i for i, request_id in enumerate(request_ids)},
            kv_connector_output=self._transfers.take_output(),
            **results,
        )
        there_later = VirtualOutput(output, self._stream)
        return there_later if self._is_asynchronous else there_later.get_output()


def drafts_of(config: Any) -> int:
    """Tokens that a drafter proposes at a time. ``config``: a VllmConfig."""
    speculative = config.speculative_config
    return 0 if speculative is None else int(speculative.num_speculative_tokens)


def _drafter_of(runner: Any) -> torch.nn.Module | None:
    """Of vLLM's first model runner."""
    model = getattr(getattr(runner, "drafter", None), "model", None)
    return model if isinstance(model, torch.nn.Module) else None


def patch_worker(module: ModuleType) -> None:
    """``module``: vllm.v1.worker.gpu_worker. Raises RuntimeError where it lacks a symbol."""
    require_attributes(module, ("Worker", "get_pp_group"))
    worker_class = module.Worker
    require_attributes(worker_class, _OF_WORKER)
    load_model = worker_class.load_model
    warm_up = worker_class.compile_or_warm_up_model

    def load_uncompiled(self: Any, *arguments: Any, **options: Any) -> Any:
        require_supported(self.vllm_config)
        pipeline_rank = module.get_pp_group().rank_in_group
        self.virtual_predictor = predictor_of_session(
            deployment_of(self.vllm_config, pipeline_rank)
        )
        self.virtual_acceptance = Acceptance.of_session(drafts_of(self.vllm_config))
        loaded = load_model(self, *arguments, **options)
        leave_uncompiled(self.model_runner.get_model())
        if (drafter := _drafter_of(self.model_runner)) is not None:
            leave_uncompiled(drafter)
        take_memory_of_kernels(self.model_runner, self.vllm_config)
        return loaded

    def warm_up_without_kernels(self: Any) -> Any:
        with without_kernels(module, self.model_runner):
            warmed = warm_up(self)
        self.virtual_steps = VirtualSteps(self)
        return warmed

    worker_class.load_model = load_uncompiled
    worker_class.compile_or_warm_up_model = warm_up_without_kernels
    for name in _ONCE_WARM:
        setattr(worker_class, name, _once_warm(name, getattr(worker_class, name)))


def _once_warm(name: str, original: Any) -> Any:
    """The method of a worker's VirtualSteps, or the ``original`` before there are any."""

    def method(self: Any, *arguments: Any) -> Any:
        steps = getattr(self, "virtual_steps", None)
        return getattr(steps, name)(*arguments) if steps else original(self, *arguments)

    return method

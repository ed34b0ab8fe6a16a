"""vLLM's GPU worker, whose steps take their predicted time."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from warpserve.patches.step_log import StepLog
from warpserve.patches.versions import require_attributes
from warpserve.patches.vllm.requests import Requests
from warpserve.patches.vllm.steps import StepStream, VirtualOutput
from warpserve.patches.vllm.support import require_supported
from warpserve.patches.vllm.warm_up import without_kernels
from warpserve.predictors.spec import predictor_of_session

_OF_WORKER = ("load_model", "compile_or_warm_up_model", "execute_model", "sample_tokens")


class VirtualSteps:
    """What takes the model runner's place in one worker, from its first real step on."""

    def __init__(self, worker: Any) -> None:
        config = worker.vllm_config
        self._requests = Requests(config.model_config.get_vocab_size())
        self._stream = StepStream(predictor_of_session(), StepLog.of_process())
        self._runner = worker.model_runner
        self._scheduled: Any = None

    def execute_model(self, scheduled: Any) -> Any:
        """``scheduled``: a SchedulerOutput. None, unless there is nothing to do: sample next."""
        self._requests.update(scheduled)
        if scheduled.total_num_scheduled_tokens == 0:
            from vllm.v1.outputs import EMPTY_MODEL_RUNNER_OUTPUT

            return EMPTY_MODEL_RUNNER_OUTPUT
        self._scheduled = scheduled
        batch = self._requests.batch(scheduled, self._runner)
        self._stream.run(batch, list(scheduled.num_scheduled_tokens))
        return None

    def sample_tokens(self, grammar: Any) -> Any:
        """``grammar``: a GrammarOutput or None. The tokens, there when the step has ended."""
        scheduled, self._scheduled = self._scheduled, None
        if scheduled is None:
            return None
        request_ids = list(scheduled.num_scheduled_tokens)
        return VirtualOutput(
            request_ids, self._requests.sample(scheduled, grammar), self._stream.end()
        )


def patch_worker(module: ModuleType) -> None:
    """``module``: vllm.v1.worker.gpu_worker. Raises RuntimeError where it lacks a symbol."""
    require_attributes(module, ("Worker",))
    worker_class = module.Worker
    require_attributes(worker_class, _OF_WORKER)
    load_model = worker_class.load_model
    warm_up = worker_class.compile_or_warm_up_model
    execute_model = worker_class.execute_model
    sample_tokens = worker_class.sample_tokens

    def load_uncompiled(self: Any, *arguments: Any, **options: Any) -> Any:
        require_supported(self.vllm_config)
        predictor_of_session()
        loaded = load_model(self, *arguments, **options)
        for part in self.model_runner.get_model().modules():
            if hasattr(part, "do_not_compile"):
                part.do_not_compile = True
        return loaded

    def warm_up_without_kernels(self: Any) -> Any:
        with without_kernels(module, self.model_runner):
            warmed = warm_up(self)
        self.virtual_steps = VirtualSteps(self)
        return warmed

    def execute_step(self: Any, scheduled: Any) -> Any:
        steps = getattr(self, "virtual_steps", None)
        return steps.execute_model(scheduled) if steps else execute_model(self, scheduled)

    def sample_step(self: Any, grammar: Any) -> Any:
        steps = getattr(self, "virtual_steps", None)
        return steps.sample_tokens(grammar) if steps else sample_tokens(self, grammar)

    worker_class.load_model = load_uncompiled
    worker_class.compile_or_warm_up_model = warm_up_without_kernels
    worker_class.execute_model = execute_step
    worker_class.sample_tokens = sample_step

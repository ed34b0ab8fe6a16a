"""Records the steps of an unmodified vLLM: `warpserve record`.

| symbol | how | why |
|---|---|---|
| ``Worker.compile_or_warm_up_model`` | afterwards, begins to record | what is before is no step |
| ``Worker.execute_model`` | an event before and one behind | the GPU's time for the forward |
| ``Worker.sample_tokens`` | the event behind once more | sampling is part of the step |
| ``Worker.shutdown`` | before, writes what is left | the last steps are known only then |
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from warpserve.patches.recording import step_log, write_recording
from warpserve.patches.step_recorder import Describe, Described, StepRecorder
from warpserve.patches.versions import require_attributes
from warpserve.patches.vllm.deployment import deployment_on, name_of
from warpserve.patches.vllm.progress import Progress
from warpserve.patches.vllm.requests import logged_as

_OF_WORKER = ("compile_or_warm_up_model", "execute_model", "sample_tokens", "shutdown")


def patch_worker(module: ModuleType) -> None:
    """``module``: vllm.v1.worker.gpu_worker. Raises RuntimeError where it lacks a symbol."""
    require_attributes(module, ("Worker", "get_pp_group"))
    worker_class = module.Worker
    require_attributes(worker_class, _OF_WORKER)
    warm_up, execute_model, sample_tokens, shutdown = (
        getattr(worker_class, name) for name in _OF_WORKER
    )

    def warm_up_and_begin(self: Any) -> Any:
        _require_recordable(self.vllm_config)
        warmed = warm_up(self)
        # Between a later stage's events lies its wait for the stage before.
        if module.get_pp_group().is_first_rank:
            _write_recording(self)
            log = step_log(name_of(self))
            self.step_recorder = StepRecorder(describing(self.model_runner), log)
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


def describing(runner: Any) -> Describe:
    """Of SchedulerOutputs, one after the other. ``runner``: the model runner, which pads them."""
    progress = Progress()

    def describe(scheduled: Any) -> Described | None:
        progress.update(scheduled)
        if not scheduled.num_scheduled_tokens:
            return None
        request_ids = list(map(logged_as, scheduled.num_scheduled_tokens))
        return Described(progress.batch(scheduled, runner), request_ids)

    return describe


def _write_recording(worker: Any) -> None:
    from vllm.third_party import pynvml

    config = worker.vllm_config
    write_recording(
        "vllm",
        rank=worker.rank,
        device=worker.device,
        nvml=pynvml,
        kv_cache=(config.cache_config.num_gpu_blocks, config.cache_config.block_size),
        config={name: part for name, part in vars(config).items() if hasattr(part, "__dict__")},
        deployed=lambda gpu: deployment_on(gpu, config, pipeline_rank=0),
    )


def _require_recordable(config: Any) -> None:
    """``config``: a VllmConfig."""
    if config.parallel_config.data_parallel_size > 1 and config.model_config.is_moe:
        raise NotImplementedError(
            "warpserve record cannot tell what ranks of a mixture of experts pad their batches to "
            "under data parallelism: record one with tensor parallelism"
        )

"""Records the steps of an unmodified SGLang: `warpserve record`.

| symbol | how | why |
|---|---|---|
| ``TpModelWorker.init_cuda_graphs`` | afterwards, begins to record | what is before is no step |
| ``forward_batch_generation`` | an event before and one behind | the GPU's time for the step |
| ``delay_sample_func`` of its result | the event behind once more | sampling is part of it |
| ``forward_batch_embedding`` | an event before and one behind | likewise |

SGLang ends its schedulers by SIGKILL: the last step before is written half a second after the GPU
has passed it.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from warpserve.patches.recording import step_log, write_recording
from warpserve.patches.sglang.batches import described, steps_of
from warpserve.patches.sglang.deployment import as_loaded, deployment_on, name_of
from warpserve.patches.sglang.padding import Padding
from warpserve.patches.sglang.resolved import parallel_of, settings
from warpserve.patches.step_recorder import Described, StepRecorder
from warpserve.patches.versions import require_attributes

_STEPS = ("forward_batch_generation", "forward_batch_embedding")


def patch_worker(module: ModuleType) -> None:
    """``module``: sglang.srt.managers.tp_worker. Raises RuntimeError where it lacks a symbol."""
    require_attributes(module, ("TpModelWorker",))
    worker_class = module.TpModelWorker
    require_attributes(worker_class, ("init_cuda_graphs", *_STEPS))
    init_cuda_graphs = worker_class.init_cuda_graphs

    def init_and_begin(self: Any, *arguments: Any, **options: Any) -> None:
        init_cuda_graphs(self, *arguments, **options)
        _require_recordable(self)
        # Between a later stage's events lies its wait for the stage before.
        if parallel_of(self).pp_rank == 0:
            self.recorded_steps = RecordedSteps(self)

    worker_class.init_cuda_graphs = init_and_begin
    for name in _STEPS:
        setattr(worker_class, name, _between_events(getattr(worker_class, name)))


def _between_events(forward: Callable[..., Any]) -> Callable[..., Any]:
    def step(self: Any, batch: Any, *arguments: Any, **options: Any) -> Any:
        steps: RecordedSteps | None = getattr(self, "recorded_steps", None)
        if steps is None:
            return forward(self, batch, *arguments, **options)
        return steps.record(batch, lambda: forward(self, batch, *arguments, **options))

    return step


class RecordedSteps:
    """Of one worker."""

    def __init__(self, worker: Any) -> None:
        """``worker``: a TpModelWorker, whose graphs are made."""
        _write_recording(worker)
        self._padding = Padding(worker.model_runner)
        self._recorder = StepRecorder(_as_described, step_log(name_of(worker)))

    def record(self, batch: Any, launch: Callable[[], Any]) -> Any:
        """``batch``: a ScheduleBatch; ``launch``: its forward, whose result this returns."""
        requests = steps_of(batch)
        if not requests:
            return launch()
        padded = self._padding.of(batch, sum(request.new_tokens for request in requests))
        request_ids = [request.rid for request in batch.reqs]
        step = Described(described(batch, requests, padded), request_ids)
        begin = self._recorder.begin()
        result = launch()
        self._recorder.end(step, begin)
        sample = getattr(result, "delay_sample_func", None)
        if sample is None:
            self._recorder.complete()
        else:
            result.delay_sample_func = self._prolonging(sample)
        return result

    def _prolonging(self, sample: Callable[[], Any]) -> Callable[[], Any]:
        def sample_later() -> Any:
            result = sample()
            self._recorder.prolong()
            self._recorder.complete()
            return result

        return sample_later


def _as_described(described: Any) -> Described:
    """The scheduler changes its batches when they are launched: too late for another thread."""
    assert isinstance(described, Described)
    return described


def _write_recording(worker: Any) -> None:
    import pynvml

    parallel, runner = parallel_of(worker), worker.model_runner
    block_tokens = runner.token_to_kv_pool_allocator.page_size
    write_recording(
        "sglang",
        rank=parallel.pp_rank * parallel.tp_size + parallel.tp_rank,
        device=worker.device,
        nvml=pynvml,
        kv_cache=(runner.max_total_num_tokens // block_tokens, block_tokens),
        config={"server_args": worker.server_args},
        deployed=lambda gpu: as_loaded(deployment_on(gpu, worker), worker),
    )


def _require_recordable(worker: Any) -> None:
    if settings("spec", worker.server_args).speculative_algorithm is not None:
        raise NotImplementedError(
            "warpserve record knows SGLang's steps without drafts only: leave speculative decoding "
            "out, and price drafts with the model's own steps"
        )
    parallel = parallel_of(worker)
    if parallel.attn_dp_enabled and parallel.attn_dp_size > 1:
        raise NotImplementedError(
            "warpserve record cannot tell ranks' own steps from waits for each other under "
            "--enable-dp-attention: record tensor parallelism"
        )

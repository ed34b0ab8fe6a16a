"""Pipeline parallelism: what a stage hands to the next one, and the last to all others.

Sizes and order are those of vLLM's worker and model runners; NCCL's virtual time makes them last.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import torch
from vllm.distributed.parallel_state import get_pp_group, get_tp_group

from warpserve.predictors.batch import Batch


class PipelineStage:
    """The only stage, too, where there is one: then nothing is handed on."""

    def __init__(self, worker: Any) -> None:
        self._group = get_pp_group()
        self._worker = worker
        self._sends: list[Any] = []
        self._tokens = _tokens_back(worker) if self._group.world_size > 1 else None

    @property
    def is_last(self) -> bool:
        return bool(self._group.is_last_rank)

    def take_tokens(self) -> None:
        """Whenever the scheduler has been heard, also where it schedules nothing."""
        if self._tokens is not None:
            self._tokens.need()

    def begin(self) -> None:
        """Before a step: hidden states, of the stage before."""
        for send in self._sends:
            send.wait()
        self._sends = []
        if self._group.is_first_rank:
            return
        _, handles, finish = self._group.irecv_tensor_dict(all_gather_group=get_tp_group())
        for handle in handles:
            handle.wait()
        for complete in finish:
            complete()

    def end(self, batch: Batch) -> None:
        """After a step: hidden states, to the stage behind."""
        if self.is_last:
            return
        runner = self._worker.model_runner
        tensors = runner.get_model().make_empty_intermediate_tensors(
            batch_size=batch.padded_tokens,
            dtype=self._worker.model_config.dtype,
            device=self._worker.device,
        )
        self._sends = self._group.isend_tensor_dict(
            tensors.tensors, all_gather_group=get_tp_group()
        )

    def pass_tokens_back(self, tokens: list[list[int]]) -> None:
        """From the last stage to the first, which goes on with them. ``tokens``: by request."""
        if self._tokens is not None:
            self._tokens.exchange(len(tokens), any(tokens))


def _tokens_back(worker: Any) -> _InOrder | _Aside | None:
    handler = getattr(worker.model_runner, "pp_handler", None)
    if handler is not None:
        return _Aside(handler, worker.device)
    # Without asynchronous scheduling the scheduler hands them on.
    return _InOrder(worker.device) if worker.model_runner.use_async_scheduling else None


class _InOrder:
    """As the first model runner does (GPUModelRunner._pp_broadcast_prev_sampled_token_ids)."""

    def __init__(self, device: torch.device) -> None:
        self._group = get_pp_group()
        self._device = device

    def need(self) -> None:
        """They are on the stream before."""

    def exchange(self, requests: int, is_any_sampled: bool) -> None:
        if not is_any_sampled:
            return
        tokens = torch.empty((requests, 1), dtype=torch.int32, device=self._device)
        torch.distributed.broadcast(
            tokens, src=self._group.last_rank, group=self._group.device_group
        )


class _Aside:
    """As the second one does (PPHandler): on a stream aside, needed as many schedules later as
    there are stages.
    """

    def __init__(self, handler: Any, device: torch.device) -> None:
        self._handler = handler
        self._device = device
        self._received: deque[torch.cuda.Event | None] = deque([None] * get_pp_group().world_size)

    def need(self) -> None:
        event = self._received.popleft()
        self._received.append(None)
        if event is not None:
            torch.cuda.current_stream().wait_event(event)

    def exchange(self, requests: int, is_any_sampled: bool) -> None:
        if not is_any_sampled:
            return
        handler = self._handler
        with torch.cuda.stream(handler.broadcast_stream):
            handler.broadcast_stream.wait_stream(handler.main_stream)
            sizes = ((requests, handler.max_sample_len), torch.int64), ((2, requests), torch.int32)
            for shape, dtype in sizes:
                tensor = torch.empty(shape, dtype=dtype, device=self._device)
                torch.distributed.broadcast(
                    tensor, src=handler.last_rank, group=handler.broadcast_group
                )
            if not handler.is_last_rank:
                self._received[-1] = handler.broadcast_stream.record_event()

"""Data parallelism of a mixture of experts: all ranks work on each layer together.

vLLM has their workers agree before each step (coordinate_batch_across_dp) on what all pad their
batches to; ranks without requests take part with a dummy batch. The step takes as long for all as
for the slowest, and begins when the last is there.
"""

from __future__ import annotations

import time
from typing import Any

import torch
from vllm.distributed.parallel_state import get_dp_group

from warpserve.predictors.batch import Batch, RequestStep
from warpserve.predictors.predictor import Prediction


class LockStepError(RuntimeError):
    """Ranks that must take a step together do not."""


class LockStep:
    """What one rank knows of the others' steps."""

    def __init__(self, config: Any) -> None:
        """``config``: a VllmConfig."""
        ranks = config.parallel_config.data_parallel_size
        is_shared = ranks > 1 and config.model_config.is_moe
        self._group = get_dp_group().cpu_group if is_shared else None
        self._free_ns = 0

    def pad(self, batch: Batch) -> Batch:
        """To the largest of all ranks'."""
        if self._group is None:
            return batch
        return batch._replace(padded_tokens=self._largest([batch.padded_tokens])[0])

    def agree(self, prediction: Prediction) -> tuple[int, Prediction]:
        """What this rank waits before its step, in ns; and how long the step takes."""
        if self._group is None:
            return 0, prediction
        ready_ns = max(self._free_ns, time.monotonic_ns())
        start_ns, duration_ns = self._largest([ready_ns, prediction.duration_ns])
        ready_ns = max(self._free_ns, time.monotonic_ns())
        self._free_ns = start_ns + duration_ns
        return start_ns - ready_ns, prediction._replace(duration_ns=duration_ns)

    def _largest(self, values: list[int]) -> list[int]:
        tensor = torch.tensor(values, dtype=torch.int64)
        try:
            torch.distributed.all_reduce(tensor, torch.distributed.ReduceOp.MAX, group=self._group)
        except RuntimeError as error:
            raise LockStepError(
                "warpserve: another data-parallel rank has not come to this step: it has ended, or "
                "takes no step while it has no requests. On GPUs the experts would wait for good"
            ) from error
        return [int(value) for value in tensor.tolist()]


def dummy_batch(runner: Any) -> Batch:
    """Of a rank that has no requests, as Worker.execute_dummy_batch makes it."""
    tokens = getattr(runner, "uniform_decode_query_len", 1)
    return Batch((RequestStep(tokens, 0, is_prefill=False),), padded_tokens=tokens)

"""Data parallelism of a mixture of experts: all ranks work on each layer together.

Ranks without requests take part with a dummy batch.
"""

from __future__ import annotations

from typing import Any

from vllm.distributed.parallel_state import get_dp_group

from warpserve.patches.lock_step import LockStep
from warpserve.patches.vllm.padding import beside, padded
from warpserve.predictors.batch import Batch, Launch, RequestStep

_NOBODY = "dummy"


class PaddedLockStep(LockStep):
    """Of ranks that agree on the sizes of their batches."""

    def __init__(self, config: Any) -> None:
        """``config``: a VllmConfig."""
        self._ranks = config.parallel_config.data_parallel_size
        is_shared = self._ranks > 1 and config.model_config.is_moe
        super().__init__(get_dp_group().cpu_group if is_shared else None)
        self._rank = get_dp_group().rank_in_group if is_shared else 0

    def pad(self, batch: Batch) -> Batch:
        if not self.is_shared:
            return batch
        own = [0] * self._ranks
        own[self._rank] = batch.padded_tokens
        slowest, *tokens = self.largest([batch.launch, *own])
        return beside(batch, Launch(slowest), tokens)


def dummy_batch(runner: Any) -> Batch:
    """Of a rank that has no requests, as Worker.execute_dummy_batch makes it."""
    tokens = getattr(runner, "uniform_decode_query_len", 1)
    padded_tokens, launch = padded(runner, {_NOBODY: tokens}, loras=0)
    request = RequestStep(tokens, 0, is_prefill=False)
    return Batch((request,), padded_tokens, launch=launch)

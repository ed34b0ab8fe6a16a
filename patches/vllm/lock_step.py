"""Data parallelism of a mixture of experts: all ranks work on each layer together.

vLLM has their workers agree before each step (coordinate_batch_across_dp) on what all pad their
batches to; ranks without requests take part with a dummy batch.
"""

from __future__ import annotations

from typing import Any

from vllm.distributed.parallel_state import get_dp_group

from warpserve.patches.lock_step import LockStep
from warpserve.predictors.batch import Batch, RequestStep


class PaddedLockStep(LockStep):
    """Of ranks whose batches have one size."""

    def __init__(self, config: Any) -> None:
        """``config``: a VllmConfig."""
        ranks = config.parallel_config.data_parallel_size
        is_shared = ranks > 1 and config.model_config.is_moe
        super().__init__(get_dp_group().cpu_group if is_shared else None)

    def pad(self, batch: Batch) -> Batch:
        """To the largest of all ranks'."""
        if not self.is_shared:
            return batch
        return batch._replace(padded_tokens=self.largest([batch.padded_tokens])[0])


def dummy_batch(runner: Any) -> Batch:
    """Of a rank that has no requests, as Worker.execute_dummy_batch makes it."""
    tokens = getattr(runner, "uniform_decode_query_len", 1)
    return Batch((RequestStep(tokens, 0, is_prefill=False),), padded_tokens=tokens)

"""Speculative decoding: drafts that nobody computes, accepted as often as the user says.

| symbol | how | why |
|---|---|---|
| ``EAGLEWorkerV2.forward_batch_generation`` | instead | drafts and their verification are a step |
| ``EAGLEWorkerV2.init_cuda_graphs`` | left out | no kernel runs |
| ``decide_needs_cpu_seq_lens`` | always | lengths are what a step's time depends on |

SGLang's scheduler learns how many were accepted when the step has ended, as on a GPU.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from warpserve.patches.versions import require_attributes

ALGORITHMS = ("EAGLE", "EAGLE3", "NEXTN", "STANDALONE")
"""Of --speculative-algorithm: those whose drafts come from a model, one after the other."""


def draft_virtually(module: ModuleType) -> None:
    """``module``: sglang.srt.speculative.eagle_worker_v2, of which other workers are made.

    Raises RuntimeError where it lacks a symbol.
    """
    require_attributes(module, ("EAGLEWorkerV2",))
    worker_class = module.EAGLEWorkerV2
    require_attributes(worker_class, ("forward_batch_generation", "init_cuda_graphs"))

    def forward(
        self: Any,
        batch: Any,
        on_publish: Callable[[Any], None] | None = None,
        grammar_barrier: Callable[[], None] | None = None,
        **_: Any,
    ) -> Any:
        """``grammar_barrier``: has grammars follow the tokens of the batch before."""
        steps = self.target_worker.virtual_steps
        if batch.forward_mode.is_extend() or batch.is_extend_in_batch:
            result = steps.forward(batch)
            result.new_seq_lens = batch.seq_lens
            result.next_draft_input = _draft_input(module, self, result.next_token_ids)
        else:
            if grammar_barrier is not None:
                grammar_barrier()
            result, bonus_tokens = steps.verify(batch, self.speculative_num_draft_tokens)
            result.next_draft_input = _draft_input(module, self, bonus_tokens)
        if on_publish is not None:
            on_publish(result.new_seq_lens)
        return result

    worker_class.forward_batch_generation = forward
    worker_class.init_cuda_graphs = lambda *_arguments, **_options: None


def know_lengths(module: ModuleType) -> None:
    """``module``: sglang.srt.managers.scheduler. Raises RuntimeError where it lacks a symbol."""
    require_attributes(module, ("decide_needs_cpu_seq_lens",))
    vars(module)["decide_needs_cpu_seq_lens"] = lambda *_arguments: True


def _draft_input(module: ModuleType, worker: Any, bonus_tokens: Any) -> Any:
    """What the next step's drafts begin with: a token, and nothing of the drafter's."""
    import torch

    shape = (len(bonus_tokens), worker.topk)
    device = bonus_tokens.device
    return module.EagleDraftInput(
        bonus_tokens=bonus_tokens,
        topk_p=torch.ones(shape, dtype=torch.float32, device=device),
        topk_index=torch.zeros(shape, dtype=torch.int64, device=device),
        num_tokens_per_req=1,
        num_tokens_for_logprob_per_req=1,
    )

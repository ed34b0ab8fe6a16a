"""How many tokens a step works on: SGLang pads batches to the sizes of captured CUDA graphs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, NamedTuple

from warpserve.patches.versions import require_attributes


class Padded(NamedTuple):
    tokens: int
    is_graph: bool


class Padding:
    """As the graph runners of one model runner would pad its batches."""

    def __init__(self, runner: Any) -> None:
        """``runner``: a ModelRunner, once its graphs are made."""
        require_attributes(runner, ("decode_cuda_graph_runner", "prefill_cuda_graph_runner"))
        self._decode = _with_attribute(runner.decode_cuda_graph_runner, "capture_bs")
        self._prefill = _with_attribute(runner.prefill_cuda_graph_runner, "capture_num_tokens")

    def of(self, batch: Any, tokens: int) -> Padded:
        """``batch``: a ScheduleBatch; ``tokens``: that it computes."""
        mode = batch.forward_mode
        if mode.is_decode_or_idle():
            return self._of_decode(batch, tokens)
        if self._prefill is not None and self._can_replay(batch, tokens):
            return Padded(
                self._prefill._pad_to_bucket(tokens, self._prefill.capture_num_tokens), True
            )
        return Padded(tokens, False)

    def _of_decode(self, batch: Any, tokens: int) -> Padded:
        graphs = self._decode
        if graphs is None or (graphs.require_mlp_sync and not _all_can(batch, _DECODE)):
            return Padded(tokens, False)
        requests = len(batch.reqs)
        if graphs.require_mlp_tp_gather:
            requests = max(requests, *batch.global_num_tokens)
        if requests == 0 or requests > graphs.max_bs:
            return Padded(tokens, False)
        if graphs.disable_padding:
            return Padded(tokens, requests in graphs.capture_bs)
        padded = graphs._pad_to_bucket(requests, graphs.capture_bs)
        return Padded(padded * max(1, tokens // len(batch.reqs) if batch.reqs else 1), True)

    def _can_replay(self, batch: Any, tokens: int) -> bool:
        if batch.global_num_tokens is not None and not _all_can(batch, _PREFILL):
            return False
        if not hasattr(self._prefill, "can_replay_locally"):
            return bool(self._prefill.can_run_graph(self._forward_of(batch, tokens)))
        return bool(
            self._prefill.can_replay_locally(
                batch_size=len(batch.reqs),
                num_tokens=tokens,
                input_embeds=batch.input_embeds,
                replace_embeds=batch.replace_embeds,
                prefix_lens=batch.prefix_lens,
                is_target_verify=False,
                capture_hidden_mode=None,
                return_logprob=batch.return_logprob,
                lora_ineligible=self._prefill.enable_lora and not self._has_lora(batch, tokens),
                is_mixed=batch.forward_mode.is_mixed(),
                batch_max_context_len=int(batch.seq_lens_cpu.max()),
            )
        )

    def _has_lora(self, batch: Any, tokens: int) -> bool:
        """Whether graphs have been made with what adapters need for such a batch."""
        forward = SimpleNamespace(
            batch_size=len(batch.reqs), forward_mode=batch.forward_mode, extend_num_tokens=tokens
        )
        manager = self._prefill.model_runner.lora_manager
        return self._prefill._capture_lora and bool(manager.can_use_prefill_cuda_graph(forward))

    def _forward_of(self, batch: Any, tokens: int) -> Any:
        """As much of a ForwardBatch as is asked whether it can be a graph."""
        return SimpleNamespace(
            input_ids=range(tokens),
            input_embeds=batch.input_embeds,
            replace_embeds=batch.replace_embeds,
            forward_mode=batch.forward_mode,
            capture_hidden_mode=self._prefill.capture_hidden_mode,
            global_num_tokens_cpu=batch.global_num_tokens,
            can_run_dp_breakable_cuda_graph=True,  # has been asked
            return_logprob=batch.return_logprob,
            extend_logprob_start_lens_cpu=batch.extend_logprob_start_lens,
            extend_seq_lens_cpu=batch.extend_lens,
        )


_DECODE = ("can_run_decode_cuda_graph", "can_run_dp_cuda_graph")
_PREFILL = ("can_run_dp_prefill_cuda_graph", "can_run_dp_breakable_cuda_graph")
"""The names of one thing in SGLang's versions, the newest first."""


def _all_can(batch: Any, names: tuple[str, ...]) -> bool:
    """What data-parallel ranks have agreed on. Raises AttributeError under other names."""
    name = next((name for name in names if hasattr(batch, name)), names[0])
    return bool(getattr(batch, name))


def _with_attribute(runner: Any, name: str) -> Any:
    """None where it is not that kind of runner: without graphs, another stands in its place."""
    return runner if hasattr(runner, name) else None

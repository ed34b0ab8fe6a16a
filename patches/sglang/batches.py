"""SGLang's batches, as predictors see them."""

from __future__ import annotations

from typing import Any

from warpserve.patches.sglang.padding import Padded
from warpserve.predictors.batch import Batch, Launch, RequestStep, Sampling


def described(batch: Any, requests: tuple[RequestStep, ...], padded: Padded) -> Batch:
    """``batch``: a ScheduleBatch; ``requests``: what it computes."""
    return Batch(
        requests,
        padded.tokens,
        loras_of(batch),
        sampling_of(batch),
        Launch.of(is_eager=not padded.is_graph),
        None if padded.is_graph else shared_tokens_of(batch),
    )


def shared_tokens_of(batch: Any) -> int | None:
    """Of all ranks with attention of their own, which pad nothing without CUDA graphs
    (DpPaddingMode in srt/layers/dp_attention.py). None where there is one alone.
    """
    tokens = batch.global_num_tokens
    return None if tokens is None or len(tokens) < 2 else sum(tokens)


def steps_of(batch: Any) -> tuple[RequestStep, ...]:
    """Of each request, in the batch's order. ``batch``: a ScheduleBatch."""
    mode = batch.forward_mode
    if mode.is_idle():
        return ()
    if mode.is_decode():
        return tuple(
            RequestStep(1, length - 1, is_prefill=False) for length in batch.seq_lens_cpu.tolist()
        )
    decoding = {id(request) for request in batch.decoding_reqs or ()}
    return tuple(
        RequestStep(new, cached, id(request) not in decoding)
        for request, new, cached in zip(
            batch.reqs, batch.extend_lens, batch.prefix_lens, strict=True
        )
    )


def loras_of(batch: Any) -> int:
    """How many adapters the batch uses."""
    return len({request.lora_id for request in batch.reqs} - {None})


def sampling_of(batch: Any) -> Sampling:
    info = batch.sampling_info
    if info is None or info.is_all_greedy:
        return Sampling.GREEDY
    is_filtered = info.need_top_k_sampling or info.need_top_p_sampling or info.need_min_p_sampling
    return Sampling.FILTERED if is_filtered else Sampling.RANDOM

"""TPOT of an engine that keeps so many requests under way, without running it.

An estimate, for comparing predictors with many measured points at once: an engine's start costs
half a minute, this a millisecond. All requests are alike, and evenly spread over their lives. While
one generates its tokens, each of the others is prefilled once: in chunks that fill a step's budget,
beside the decodes of all. There is a step for each token, so that TPOT is the mean of their times.
Queueing, preemption and prefix caching are left out.
"""

from __future__ import annotations

import math
import statistics
from typing import NamedTuple

from warpserve.predictors.batch import Batch, RequestStep, Sampling
from warpserve.predictors.captured import padded_tokens
from warpserve.predictors.predictor import Predictor

_TOKEN_BUDGET = 8192
"""On GPUs of 70 GB and more: vLLM's max_num_batched_tokens for its API server, and SGLang's
chunked_prefill_size.
"""
_LOOKS_AT_A_WAVE = 8


class Load(NamedTuple):
    concurrency: int
    input_tokens: int
    output_tokens: int

    def shortened(self, part: float) -> Load:
        """With so much of its lengths."""
        return Load(
            self.concurrency, round(part * self.input_tokens), round(part * self.output_tokens)
        )


def tpot_ns(predictor: Predictor, load: Load, sampling: Sampling = Sampling.GREEDY) -> float:
    contexts = _contexts(load, load.concurrency)
    decodes = [RequestStep(1, context, is_prefill=False) for context in contexts]
    chunks = _chunks(load.input_tokens, _TOKEN_BUDGET - load.concurrency + 1)
    mixed_ns = [_step_ns(predictor, [*decodes[1:], chunk], sampling) for chunk in chunks]
    steps = load.output_tokens - 1
    mixed_steps = min((load.concurrency - 1) * len(chunks), steps)
    mean_mixed_ns = sum(mixed_ns) / len(mixed_ns)
    pure_ns = _step_ns(predictor, decodes, sampling)
    return (mixed_steps * mean_mixed_ns + (steps - mixed_steps) * pure_ns) / steps


def tpot_apart_ns(predictor: Predictor, load: Load, sampling: Sampling = Sampling.GREEDY) -> float:
    """The same of an engine that has prefills in steps of their own, for which all others wait."""
    contexts = _contexts(load, load.concurrency)
    decodes = [RequestStep(1, context, is_prefill=False) for context in contexts]
    chunks = _chunks(load.input_tokens, _TOKEN_BUDGET)
    prefill_ns = sum(_step_ns(predictor, [chunk], sampling) for chunk in chunks)
    awaited_ns = (load.concurrency - 1) * prefill_ns
    return _step_ns(predictor, decodes, sampling) + awaited_ns / (load.output_tokens - 1)


class Wave(NamedTuple):
    """Of means over its requests."""

    ttft_ns: float
    tpot_ns: float


def wave(predictor: Predictor, load: Load, sampling: Sampling = Sampling.GREEDY) -> Wave:
    """The same of requests that all come together, and go together, in an engine that has prefills
    in steps of their own: SGLang.

    Prompts are prefilled as many at once as fill a step's budget. Who is prefilled early waits for
    the others before decoding. Raises ValueError for prompts that are longer than that budget.
    """
    if load.input_tokens > _TOKEN_BUDGET:
        raise ValueError(f"a prompt of {load.input_tokens} tokens is prefilled in several steps")
    together = min(_TOKEN_BUDGET // load.input_tokens, load.concurrency)
    prefills = math.ceil(load.concurrency / together)
    prompt = RequestStep(load.input_tokens, 0, is_prefill=True)
    prefill_ns = _step_ns(predictor, [prompt] * together, sampling)
    decode_ns = statistics.mean(
        _step_ns(
            predictor, [RequestStep(1, context, is_prefill=False)] * load.concurrency, sampling
        )
        for context in _contexts(load, _LOOKS_AT_A_WAVE)
    )
    awaited_ns = (prefills - 1) / 2 * prefill_ns
    return Wave(
        ttft_ns=awaited_ns + prefill_ns,
        tpot_ns=decode_ns + awaited_ns / (load.output_tokens - 1),
    )


def _contexts(load: Load, count: int) -> list[int]:
    """Evenly spread over a request's life."""
    return [
        load.input_tokens + round((index + 0.5) / count * load.output_tokens)
        for index in range(count)
    ]


def _chunks(prompt_tokens: int, budget: int) -> list[RequestStep]:
    return [
        RequestStep(min(budget, prompt_tokens - done), done, is_prefill=True)
        for done in range(0, prompt_tokens, budget)
    ]


def _step_ns(predictor: Predictor, requests: list[RequestStep], sampling: Sampling) -> int:
    tokens = sum(request.new_tokens for request in requests)
    batch = Batch(tuple(requests), padded_tokens(tokens), sampling=sampling)
    return predictor.predict(batch).duration_ns

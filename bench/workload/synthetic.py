"""Lengths that are drawn, or always the same; conversations of them."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Annotated

import numpy as np
from pydantic import BaseModel, ConfigDict, Field
from tokenizers import Tokenizer

from warpserve.bench.workload.options import options_of
from warpserve.bench.workload.request import Request, Segment, WorkloadError

_PREFIX = 0


class ConstantOptions(BaseModel):
    """``constant``: every request is as long as every other."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    input: Annotated[int, Field(ge=1)] = 1024
    output: Annotated[int, Field(ge=1)] = 128
    prefix: Annotated[int, Field(ge=0)] = 0
    """Tokens that all prompts begin with, beyond ``input``."""


class RandomOptions(ConstantOptions):
    """``random``: the data set of that name in ``vllm bench serve``, whose options begin with
    ``--random-`` and end in ``-len``."""

    range: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Lengths are uniform between this part less and this part more: ``--random-range-ratio``."""


class SessionOptions(RandomOptions):
    """``sessions``: conversations, of whose turns each adds ``input`` tokens."""

    turns: Annotated[int, Field(ge=1)] = 4
    think_s: Annotated[float, Field(ge=0, le=1e8, allow_inf_nan=False)] = 10.0
    """Mean of the exponential think times; so bounded that the session's clock, which ends at
    9.2e9 s, holds the longest."""


def constant_requests(workload: str, count: int, tokenizer: Tokenizer) -> list[Request]:
    options = options_of(ConstantOptions, workload)
    drawn = RandomOptions(**options.model_dump())
    return _requests(drawn, count, 0, tokenizer)


def random_requests(workload: str, count: int, seed: int, tokenizer: Tokenizer) -> list[Request]:
    """With the lengths that vLLM draws for this seed (vllm/benchmarks/datasets/utils.py,
    get_sampling_params)."""
    return _requests(options_of(RandomOptions, workload), count, seed, tokenizer)


def session_requests(workload: str, count: int, seed: int, tokenizer: Tokenizer) -> list[Request]:
    """One conversation after the other; the last one may lack turns."""
    options = options_of(SessionOptions, workload)
    requests = _requests(options, count, seed, tokenizer)
    draw = np.random.RandomState(seed)
    thinks_ns = np.rint(draw.exponential(options.think_s * 1e9, count)).astype(np.int64)
    turns = []
    for index, (request, think_ns) in enumerate(zip(requests, thinks_ns.tolist(), strict=True)):
        turn = replace(request, session=str(index // options.turns))
        if index % options.turns:
            added_tokens = request.input_tokens - options.prefix
            turn = replace(turn, input_tokens=added_tokens, segments=(), think_ns=think_ns)
        turns.append(turn)
    return turns


def _requests(options: RandomOptions, count: int, seed: int, tokenizer: Tokenizer) -> list[Request]:
    special: int = tokenizer.num_special_tokens_to_add(is_pair=False)
    drawn = max(0, options.input - special)
    low, high = _bounds(drawn, options.range)
    if options.prefix + special + low < 1:
        raise WorkloadError("random: a prompt may come out without a token: say a longer input")
    draw = np.random.default_rng(seed)
    inputs = draw.integers(low, high + 1, size=count)
    low, high = _bounds(options.output, options.range)
    outputs = draw.integers(max(low, 1), max(high, 1) + 1, size=count)
    begin = special + options.prefix
    segments = (Segment(_PREFIX, begin),) if options.prefix else ()
    return [
        Request(begin + int(input_tokens), int(output_tokens), segments=segments)
        for input_tokens, output_tokens in zip(inputs, outputs, strict=True)
    ]


def _bounds(tokens: int, part: float) -> tuple[int, int]:
    return math.floor(tokens * (1 - part)), math.ceil(tokens * (1 + part))

"""Log probabilities, where a client asks for them: those of tokens that are all equally likely.

No logits are computed, so each token has minus the logarithm of the vocabulary's size. The sampled
one counts as the first, and the ids behind it are the next ones.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch


def fill(output: Any, batch: Any, tokens: Sequence[int], vocabulary_size: int) -> None:
    """``output``: a LogitsProcessorOutput; ``batch``: the ScheduleBatch whose ``tokens`` were just
    sampled.
    """
    counts, asked = batch.top_logprobs_nums, batch.token_ids_logprobs
    _fill_sampled(output, tokens, counts, asked, vocabulary_size)
    if batch.forward_mode.is_extend():
        _fill_prompts(output, batch, vocabulary_size)


def fill_verified(
    output: Any, batch: Any, rows: Sequence[Sequence[int]], vocabulary_size: int
) -> None:
    """``rows``: of each request, as many tokens as a step verifies; those behind the accepted ones
    nobody looks at.
    """
    width = len(rows[0])
    tokens = [token for row in rows for token in row]
    counts, asked = (
        [each for each in values for _ in range(width)]
        for values in (batch.top_logprobs_nums, batch.token_ids_logprobs)
    )
    _fill_sampled(output, tokens, counts, asked, vocabulary_size)
    output.next_token_logprobs = output.next_token_logprobs.view(-1, width)


def _fill_sampled(
    output: Any,
    tokens: Sequence[int],
    counts: Sequence[int],
    asked: Sequence[Sequence[int] | None],
    vocabulary_size: int,
) -> None:
    """``counts``: of the likeliest tokens, ``asked``: other tokens to tell of, for each token."""
    value = _value(vocabulary_size)
    output.next_token_logprobs = torch.full((len(tokens),), value)
    if any(counts):
        output.next_token_top_logprobs_val = [torch.full((count,), value) for count in counts]
        output.next_token_top_logprobs_idx = [
            torch.tensor(_top(token, count, vocabulary_size), dtype=torch.int64)
            for token, count in zip(tokens, counts, strict=True)
        ]
    if any(asked):
        output.next_token_token_ids_logprobs_val = [
            torch.full((len(ids or ()),), value) for ids in asked
        ]
        output.next_token_token_ids_logprobs_idx = [list(ids or ()) for ids in asked]


def _fill_prompts(output: Any, batch: Any, vocabulary_size: int) -> None:
    value = _value(vocabulary_size)
    counts, asked = batch.top_logprobs_nums, batch.token_ids_logprobs
    lengths = [
        length - start
        for length, start in zip(batch.extend_lens, batch.extend_logprob_start_lens, strict=True)
    ]
    output.input_token_logprobs = torch.full((sum(lengths),), value)
    output.input_top_logprobs_val = [
        [[value] * count] * length for length, count in zip(lengths, counts, strict=True)
    ]
    output.input_top_logprobs_idx = [
        [_top(vocabulary_size // 4, count, vocabulary_size)] * length
        for length, count in zip(lengths, counts, strict=True)
    ]
    output.input_token_ids_logprobs_val = [
        [[value] * len(ids or ())] * length for length, ids in zip(lengths, asked, strict=True)
    ]
    output.input_token_ids_logprobs_idx = [
        [list(ids or ())] * length for length, ids in zip(lengths, asked, strict=True)
    ]


def _value(vocabulary_size: int) -> float:
    return -math.log(vocabulary_size)


def _top(first: int, count: int, vocabulary_size: int) -> list[int]:
    return [(first + i) % vocabulary_size for i in range(count)]

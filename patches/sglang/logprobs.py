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
    value = -math.log(vocabulary_size)

    def top(first: int, count: int) -> list[int]:
        return [(first + i) % vocabulary_size for i in range(count)]

    counts, asked = batch.top_logprobs_nums, batch.token_ids_logprobs
    output.next_token_logprobs = torch.full((len(tokens),), value)
    if any(counts):
        output.next_token_top_logprobs_val = [torch.full((count,), value) for count in counts]
        output.next_token_top_logprobs_idx = [
            torch.tensor(top(token, count), dtype=torch.int64)
            for token, count in zip(tokens, counts, strict=True)
        ]
    if any(asked):
        output.next_token_token_ids_logprobs_val = [
            torch.full((len(ids or ()),), value) for ids in asked
        ]
        output.next_token_token_ids_logprobs_idx = [list(ids or ()) for ids in asked]
    if batch.forward_mode.is_extend():
        lengths = [
            length - start
            for length, start in zip(
                batch.extend_lens, batch.extend_logprob_start_lens, strict=True
            )
        ]
        output.input_token_logprobs = torch.full((sum(lengths),), value)
        output.input_top_logprobs_val = [
            [[value] * count] * length for length, count in zip(lengths, counts, strict=True)
        ]
        output.input_top_logprobs_idx = [
            [top(vocabulary_size // 4, count)] * length
            for length, count in zip(lengths, counts, strict=True)
        ]
        output.input_token_ids_logprobs_val = [
            [[value] * len(ids or ())] * length for length, ids in zip(lengths, asked, strict=True)
        ]
        output.input_token_ids_logprobs_idx = [
            [list(ids or ())] * length for length, ids in zip(lengths, asked, strict=True)
        ]

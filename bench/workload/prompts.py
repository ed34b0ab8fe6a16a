"""Prompts of a given length, for clients that send text."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path

from tokenizers import Tokenizer

from warpserve.bench.workload.lengths import RequestLengths, WorkloadError


def write_prompts(
    path: Path, lengths: Sequence[RequestLengths], tokenizer: Tokenizer, seed: int
) -> None:
    """JSON lines of ``prompt`` and ``output_tokens``, as vLLM's custom dataset has them, and
    ``input_tokens``.

    Each prompt is of random tokens and has its length by this tokenizer. The same arguments write
    the same bytes. Raises WorkloadError where a tokenizer changes lengths.
    """
    draw = random.Random(seed)
    with path.open("w") as file:
        for request in lengths:
            prompt = _prompt(request.input_tokens, tokenizer, draw)
            line = {
                "prompt": prompt,
                "input_tokens": request.input_tokens,
                "output_tokens": request.output_tokens,
            }
            file.write(json.dumps(line) + "\n")


def _prompt(tokens: int, tokenizer: Tokenizer, draw: random.Random) -> str:
    added = tokenizer.num_special_tokens_to_add(is_pair=False)
    ids = _plain_ids(tokenizer)
    text: str = tokenizer.decode([draw.choice(ids) for _ in range(max(0, tokens - added))])
    found = len(tokenizer.encode(text).ids)
    if found != tokens:
        raise WorkloadError(f"a prompt of {tokens} tokens came out as {found} by this tokenizer")
    return text


def _plain_ids(tokenizer: Tokenizer) -> range:
    """Away from both ends of the vocabulary, where special tokens lie."""
    size = tokenizer.get_vocab_size()
    return range(size // 4, 3 * size // 4)

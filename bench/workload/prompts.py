"""What is sent, as a file: prompts of the requests' lengths, and their times."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer

from warpserve.bench.workload.plan import Planned
from warpserve.bench.workload.request import Request, WorkloadError

_OF_SEGMENT, _OF_REQUEST = 0, 1  # what a stream of random numbers is for


def write_prompts(
    path: Path, planned: Sequence[Planned], tokenizer: Tokenizer, seed: int, *, as_text: bool
) -> None:
    """A JSON line a request.

    ``prompt`` (text or token ids; of a session's later turn: what it adds), ``input_tokens`` (of
    the whole prompt), ``output_tokens`` and, where there are, ``arrival_s``, ``session``,
    ``think_s`` and ``output_token_ids``. vLLM's custom dataset reads the first and the third. The
    same arguments write the same bytes. ``as_text``: prompts are text, for clients that send no
    ids. Raises WorkloadError where text does not have the length that it must have.
    """
    prompts = _Prompts(tokenizer, seed)
    conversations: dict[str, int] = {}
    with path.open("w") as file:
        for index, entry in enumerate(planned):
            before_tokens = _tokens_before(entry.request, conversations)
            prompt = prompts.of(index, entry.request, is_later=before_tokens > 0, as_text=as_text)
            file.write(json.dumps(_line(entry, prompt, before_tokens)) + "\n")


def _tokens_before(request: Request, conversations: dict[str, int]) -> int:
    """Of the conversation that a request goes on with."""
    if request.session is None:
        return 0
    before = conversations.get(request.session, 0)
    conversations[request.session] = before + request.input_tokens + request.output_tokens
    return before


def _line(entry: Planned, prompt: str | list[int], before_tokens: int) -> dict[str, Any]:
    request = entry.request
    values = {
        "prompt": prompt,
        "input_tokens": before_tokens + request.input_tokens,
        "output_tokens": request.output_tokens,
        "arrival_s": entry.arrival_s,
        "session": request.session,
        "think_s": request.think_ns / 1e9 if before_tokens else None,
        "output_token_ids": request.output_token_ids,
    }
    return {name: value for name, value in values.items() if value is not None}


class _Prompts:
    """Random tokens come from the middle of the vocabulary: special ones lie at its ends."""

    def __init__(self, tokenizer: Tokenizer, seed: int) -> None:
        self._tokenizer = tokenizer
        self._seed = seed
        size = tokenizer.get_vocab_size()
        self._low, self._high = size // 4, 3 * size // 4
        self._begin: list[int] = tokenizer.encode("").ids  # what every prompt begins with

    def of(self, index: int, request: Request, *, is_later: bool, as_text: bool) -> str | list[int]:
        if request.prompt is not None and request.session is not None:
            whole = self._tokenizer.encode(request.prompt, add_special_tokens=not is_later)
            return list(whole.ids)
        if request.prompt is not None:
            return request.prompt
        if request.prompt_token_ids is not None:
            return list(request.prompt_token_ids)
        begin = [] if is_later else self._begin
        ids = list(self._ids(index, request))
        if as_text:
            return self._text(ids[len(begin) :], request.input_tokens)
        return (begin + ids[len(begin) :])[: request.input_tokens]

    def _ids(self, index: int, request: Request) -> Iterator[int]:
        left = request.input_tokens
        for key, tokens in request.segments:
            yield from self._drawn(_OF_SEGMENT, key, tokens)
            left -= tokens
        yield from self._drawn(_OF_REQUEST, index, left)

    def _drawn(self, purpose: int, key: int, tokens: int) -> list[int]:
        entropy = np.random.SeedSequence([self._seed, purpose, key])
        draw = np.random.RandomState(np.random.MT19937(entropy))
        ids: list[int] = draw.randint(self._low, self._high, tokens).tolist()
        return ids

    def _text(self, ids: list[int], tokens: int) -> str:
        text: str = self._tokenizer.decode(ids)
        found = len(self._tokenizer.encode(text).ids)
        if found != tokens:
            raise WorkloadError(
                f"a prompt of {tokens} tokens came out as {found} by this tokenizer: --client own "
                "sends token ids"
            )
        return text

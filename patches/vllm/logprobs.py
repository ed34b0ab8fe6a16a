"""Log probabilities, where a client asks for them: those of tokens that are all equally likely.

No logits are computed, so each token has minus the logarithm of the vocabulary's size. The sampled
one counts as the first, and the ids behind it are the next ones. What is sent, and what the servers
do for it, is as much as with a real model; the values say nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate, chain
from typing import Any, NamedTuple

import numpy as np
import torch
from vllm.v1.outputs import LogprobsLists, LogprobsTensors

from warpserve.patches.vllm.requests import has_outputs


class _Asked(NamedTuple):
    """By one request; None: not asked for."""

    of_outputs: int | None
    """How many tokens, beside the sampled one."""
    token_ids: Sequence[int]
    """Which ones; if there are none here, the likeliest."""
    of_prompt: int | None
    """Likewise, for each token of the prompt but the first."""
    prompt: Sequence[int]


class Logprobs:
    """The requests of one worker that ask for them."""

    def __init__(self, vocabulary_size: int) -> None:
        self._vocabulary_size = vocabulary_size
        self._asked: dict[str, _Asked] = {}

    def update(self, scheduled: Any) -> None:
        """``scheduled``: a SchedulerOutput."""
        for request_id in scheduled.finished_req_ids:
            self._asked.pop(request_id, None)
        for new in scheduled.scheduled_new_reqs:
            asked = self._asked_by(new)
            if asked is not None:
                self._asked[new.req_id] = asked

    def of_step(
        self, request_ids: Sequence[str], tokens: Sequence[Sequence[int]]
    ) -> dict[str, Any]:
        """The fields of a ModelRunnerOutput. ``tokens``: by request, those just sampled."""
        if not self._asked:
            return {}
        asked = [self._asked.get(request_id) for request_id in request_ids]
        counts = [one.of_outputs for one in asked if one and one.of_outputs is not None]
        fields: dict[str, Any] = {"prompt_logprobs_dict": self._of_prompts(request_ids, tokens)}
        if counts:
            starts = list(accumulate(map(len, tokens), initial=0))
            sampled = list(chain.from_iterable(tokens))
            ids, logarithms, ranks = self._rows(sampled, max(counts))
            for one, start, end in zip(asked, starts, starts[1:], strict=False):
                if one and one.token_ids:
                    ids[start:end, 1 : 1 + len(one.token_ids)] = one.token_ids
            fields["logprobs"] = LogprobsLists(ids, logarithms, ranks, starts)
        return fields

    def _of_prompts(
        self, request_ids: Sequence[str], tokens: Sequence[Sequence[int]]
    ) -> dict[str, LogprobsTensors]:
        """With the first token, and only then."""
        found = {}
        for request_id, sampled in zip(request_ids, tokens, strict=True):
            asked = self._asked.get(request_id)
            if asked is not None and asked.of_prompt is not None and sampled:
                rows = self._rows(asked.prompt[1:], asked.of_prompt)
                found[request_id] = LogprobsTensors(*map(torch.from_numpy, rows))
                self._asked[request_id] = asked._replace(of_prompt=None)
        return found

    def _rows(
        self, tokens: Sequence[int], count: int
    ) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """Ids and logarithms, both [tokens, 1 + count], and the ranks of the tokens."""
        first = np.asarray(tokens, dtype=np.int32).reshape(-1, 1)
        ids = np.hstack([first, (first + np.arange(count, dtype=np.int32)) % self._vocabulary_size])
        logarithms = np.full(ids.shape, -math.log(self._vocabulary_size), dtype=np.float32)
        return ids, logarithms, np.ones(len(ids), dtype=np.int32)

    def _asked_by(self, new: Any) -> _Asked | None:
        """``new``: a NewRequestData."""
        sampling = new.sampling_params
        if sampling is None:
            return None
        token_ids = getattr(sampling, "logprob_token_ids", None) or ()
        of_outputs = len(token_ids) if token_ids else self._count(sampling.logprobs)
        of_prompt = None if has_outputs(new) else self._count(sampling.prompt_logprobs)
        if of_outputs is None and of_prompt is None:
            return None
        return _Asked(of_outputs, token_ids, of_prompt, new.prompt_token_ids)

    def _count(self, asked: int | None) -> int | None:
        return self._vocabulary_size if asked == -1 else asked

"""What a worker knows of its requests, from the scheduler's outputs alone."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import cache
from typing import Any

from warpserve.patches.tokens import TokenSource, seed_of
from warpserve.patches.vllm.grammar import allowed_tokens
from warpserve.patches.vllm.padding import padded_tokens
from warpserve.predictors.batch import Batch, RequestStep

GIVEN_OUTPUT = "warpserve_output_token_ids"
"""In SamplingParams.extra_args (``vllm_xargs`` of the HTTP API): the token ids of the answer."""


@dataclass
class _Request:
    seed: int
    prompt_tokens: int
    given_output: list[int]
    known_tokens: int
    """Of the prompt and of the outputs so far: computing the last of them gives a new one."""
    computed_tokens: int


class Requests:
    """The requests of one worker, by id."""

    def __init__(self, vocabulary_size: int) -> None:
        self._requests: dict[str, _Request] = {}
        self._tokens = TokenSource(vocabulary_size)

    def update(self, scheduled: Any) -> None:
        """``scheduled``: a SchedulerOutput."""
        for request_id in scheduled.finished_req_ids:
            self._requests.pop(request_id, None)
        for new in scheduled.scheduled_new_reqs:
            self._requests[new.req_id] = _request_of(new)
        cached = scheduled.scheduled_cached_reqs
        for request_id, computed_tokens, output_tokens in zip(
            cached.req_ids, cached.num_computed_tokens, cached.num_output_tokens, strict=True
        ):
            request = self._requests[request_id]
            request.computed_tokens = computed_tokens
            request.known_tokens = request.prompt_tokens + output_tokens

    def batch(self, scheduled: Any, runner: Any) -> Batch:
        """The step that is scheduled, as predictors see it."""
        steps = []
        for request_id, new_tokens in scheduled.num_scheduled_tokens.items():
            request = self._requests[request_id]
            is_prefill = request.computed_tokens + 1 < request.known_tokens
            steps.append(RequestStep(new_tokens, request.computed_tokens, is_prefill))
        return Batch(tuple(steps), padded_tokens(runner, scheduled.num_scheduled_tokens))

    def sample(self, scheduled: Any, grammar: Any) -> list[list[int]]:
        """A token for each request whose known tokens are all computed, in the batch's order."""
        allowed = allowed_tokens(grammar) if grammar is not None else {}
        return [
            self._sample(self._requests[request_id], new_tokens, allowed.get(request_id))
            for request_id, new_tokens in scheduled.num_scheduled_tokens.items()
        ]

    def _sample(self, request: _Request, new_tokens: int, allowed: Any) -> list[int]:
        position = request.computed_tokens + new_tokens
        if position < request.known_tokens:
            return []
        if allowed is not None:
            return [self._tokens.one_of(allowed, request.seed, position)]
        answered = position - request.prompt_tokens
        if answered < len(request.given_output):
            return [request.given_output[answered]]
        return [self._tokens.at(request.seed, position)]


@cache
def _warn_of_logprobs() -> None:
    """Once a process."""
    logging.getLogger("vllm").warning(
        "warpserve: log probabilities were asked for; no logits are computed, so there are none"
    )


def _request_of(new: Any) -> _Request:
    """``new``: a NewRequestData, also of a request that was preempted and starts over."""
    prompt = new.prompt_token_ids
    known = getattr(new, "prefill_token_ids", None) or prompt
    extra = new.sampling_params.extra_args or {}
    if new.sampling_params.logprobs is not None:
        _warn_of_logprobs()
    return _Request(
        seed=seed_of(prompt),
        prompt_tokens=len(prompt),
        given_output=[int(token) for token in extra.get(GIVEN_OUTPUT, ())],
        known_tokens=len(known),
        computed_tokens=new.num_computed_tokens,
    )

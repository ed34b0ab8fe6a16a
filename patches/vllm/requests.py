"""What a worker knows of its requests, from the scheduler's outputs alone."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from warpserve.patches.speculation import Acceptance
from warpserve.patches.tokens import GIVEN_OUTPUT, TokenSource, given_token_ids, seed_of
from warpserve.patches.vllm.grammar import allowed_tokens
from warpserve.patches.vllm.padding import padded
from warpserve.patches.vllm.sampling import sampling_of
from warpserve.predictors.batch import Batch, RequestStep, Sampling

_ADDED_TO_ID = re.compile("-[0-9a-f]{8}$")
"""By InputProcessor.assign_request_id."""


def logged_as(request_id: str) -> str:
    """A request's id without the random digits that vLLM adds to it: the same in each run."""
    return _ADDED_TO_ID.sub("", request_id)


@dataclass
class Request:
    """As the worker has computed it: the scheduler may count drafts that are not verified yet."""

    logged_as: str
    """Its id in step logs."""
    seed: int
    prompt_tokens: int
    allowed: Sequence[int] | None
    """Token ids that the client restricts the answer to."""
    allowed_first: Sequence[int] | None
    """Those of them that do not end it: for its first ``least_tokens``."""
    least_tokens: int
    given_output: list[int]
    known_tokens: int
    """Of the prompt and of the outputs so far: computing the last of them gives a new one."""
    computed_tokens: int
    has_sampled: bool
    """Since it was last let in. Before that, what stands for its drafts is padding, of which the
    model accepts none (vLLM 0.33's Scheduler.schedule, "Pad new decode requests").
    """
    lora_id: int
    """0: the base model."""
    sampling: Sampling
    pooling: Any
    """PoolingParams, for a model that answers with vectors; else None."""


class Requests:
    """The requests of one worker, by id."""

    def __init__(self, vocabulary_size: int, acceptance: Acceptance) -> None:
        self._requests: dict[str, Request] = {}
        self._tokens = TokenSource(vocabulary_size)
        self._acceptance = acceptance

    def __getitem__(self, request_id: str) -> Request:
        return self._requests[request_id]

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
            if request_id in cached.resumed_req_ids:
                request.computed_tokens = computed_tokens
                request.known_tokens = request.prompt_tokens + output_tokens
                request.has_sampled = False
            elif computed_tokens < request.computed_tokens:
                request.computed_tokens = computed_tokens

    def batch(self, scheduled: Any, runner: Any) -> Batch:
        """The step that is scheduled, as predictors see it."""
        steps = []
        lora_ids, samplings = {0}, {Sampling.GREEDY}
        for request_id, new_tokens in scheduled.num_scheduled_tokens.items():
            request = self._requests[request_id]
            is_prefill = request.computed_tokens + 1 < request.known_tokens
            steps.append(RequestStep(new_tokens, request.computed_tokens, is_prefill))
            lora_ids.add(request.lora_id)
            samplings.add(request.sampling)
        loras = len(lora_ids) - 1
        tokens, launch = padded(runner, scheduled.num_scheduled_tokens, loras)
        return Batch(
            tuple(steps),
            tokens,
            loras,
            max(samplings),
            launch,
            skips_drafts=getattr(scheduled, "skip_drafts", False),  # from vLLM 0.33 on
        )

    def advance(self, scheduled: Any, grammar: Any) -> list[list[int]]:
        """The step has been computed: the new tokens of each request, in the batch's order.

        None for a request whose known tokens are not all computed, and for one that pools; one, and
        as many drafts as are accepted, for the others.
        """
        allowed = allowed_tokens(grammar, scheduled) if grammar is not None else {}
        drafts = scheduled.scheduled_spec_decode_tokens
        return [
            self._advance(
                self._requests[request_id],
                new_tokens,
                len(drafts.get(request_id, ())),
                allowed.get(request_id),
            )
            for request_id, new_tokens in scheduled.num_scheduled_tokens.items()
        ]

    def drafts(self, request_ids: list[str], count: int) -> list[list[int]]:
        """What a drafter would propose to follow the known tokens of each."""
        return [
            [self._token(request, request.known_tokens + i) for i in range(count)]
            for request in map(self._requests.__getitem__, request_ids)
        ]

    def _advance(self, request: Request, new_tokens: int, drafts: int, allowed: Any) -> list[int]:
        last = request.computed_tokens + new_tokens - drafts
        request.computed_tokens = last
        if last < request.known_tokens or request.pooling is not None:
            return []
        if allowed is not None:
            tokens = [self._tokens.one_of(allowed, request.seed, last)]
        elif drafts and request.has_sampled:
            accepted = self._acceptance.of(request.seed, last, drafts)
            tokens = [self._token(request, last + i) for i in range(accepted + 1)]
        else:
            tokens = [self._token(request, last)]
        request.computed_tokens = last + len(tokens) - 1
        request.known_tokens = last + len(tokens)
        request.has_sampled = True
        return tokens

    def _token(self, request: Request, position: int) -> int:
        answered = position - request.prompt_tokens
        if answered < len(request.given_output):
            return request.given_output[answered]
        if request.allowed:
            is_first = answered < request.least_tokens
            if allowed := request.allowed_first if is_first else request.allowed:
                return self._tokens.one_of(allowed, request.seed, position)
        return self._tokens.at(request.seed, position)


def steps_of(scheduled: Any) -> list[str]:
    """The ids of the requests in a step, in its order."""
    return list(scheduled.num_scheduled_tokens)


def has_outputs(new: Any) -> bool:
    """Whether a NewRequestData is of a request that was preempted and starts over."""
    return len(_known_tokens(new)) > len(new.prompt_token_ids)


def _known_tokens(new: Any) -> Sequence[int]:
    known: Sequence[int] = getattr(new, "prefill_token_ids", None) or new.prompt_token_ids
    return known


def _request_of(new: Any) -> Request:
    """``new``: a NewRequestData."""
    prompt = new.prompt_token_ids
    known = _known_tokens(new)
    sampling = new.sampling_params
    extra = (sampling.extra_args if sampling is not None else None) or {}
    return Request(
        logged_as=logged_as(new.req_id),
        seed=seed_of(prompt, _choice_of(new.req_id)),
        prompt_tokens=len(prompt),
        allowed=sampling.allowed_token_ids if sampling is not None else None,
        allowed_first=_allowed_first(sampling) if sampling is not None else None,
        least_tokens=sampling.min_tokens if sampling is not None else 0,
        given_output=given_token_ids(extra.get(GIVEN_OUTPUT, ())),
        known_tokens=len(known),
        computed_tokens=new.num_computed_tokens,
        has_sampled=False,
        lora_id=new.lora_request.lora_int_id if new.lora_request is not None else 0,
        sampling=sampling_of(sampling),
        pooling=new.pooling_params,
    )


def _allowed_first(sampling: Any) -> Sequence[int] | None:
    """Until there are min_tokens of an answer, vLLM's sampler forbids what would end it."""
    if not sampling.allowed_token_ids:
        return None
    return [each for each in sampling.allowed_token_ids if each not in sampling.all_stop_token_ids]


def _choice_of(request_id: str) -> int:
    """Which of several answers to one prompt: vLLM asks for ``n`` as NUMBER_ID, from 0 on."""
    number, separator, _ = request_id.partition("_")
    return int(number) if separator and number.isdecimal() else 0

"""What the scheduler's outputs tell of an engine that nobody stands in for."""

from __future__ import annotations

from typing import Any

from warpserve.patches.vllm.padding import padded
from warpserve.patches.vllm.sampling import sampling_of
from warpserve.predictors.batch import Batch, RequestStep, Sampling


class Progress:
    """How far requests are, by the scheduler's outputs alone.

    With speculative decoding the scheduler may count drafts that turn out to be refused: then a
    context is too long by no more than these.
    """

    def __init__(self) -> None:
        self._prompt_tokens: dict[str, int] = {}
        self._tokens: dict[str, tuple[int, int]] = {}
        """Of each request those that are computed, and those that are known."""
        self._lora_ids: dict[str, int] = {}
        self._samplings: dict[str, Sampling] = {}

    def update(self, scheduled: Any) -> None:
        """``scheduled``: a SchedulerOutput."""
        for request_id in scheduled.finished_req_ids:
            for known in (self._prompt_tokens, self._tokens, self._lora_ids, self._samplings):
                known.pop(request_id, None)
        for new in scheduled.scheduled_new_reqs:
            prompt = new.prompt_token_ids if new.prompt_embeds is None else new.prompt_embeds
            known_tokens = len(getattr(new, "prefill_token_ids", None) or prompt)
            self._prompt_tokens[new.req_id] = len(prompt)
            self._tokens[new.req_id] = new.num_computed_tokens, known_tokens
            self._samplings[new.req_id] = sampling_of(new.sampling_params)
            if new.lora_request is not None:
                self._lora_ids[new.req_id] = new.lora_request.lora_int_id
        cached, prompts, tokens = scheduled.scheduled_cached_reqs, self._prompt_tokens, self._tokens
        for request_id, computed, outputs in zip(
            cached.req_ids, cached.num_computed_tokens, cached.num_output_tokens, strict=True
        ):
            tokens[request_id] = computed, prompts[request_id] + outputs

    def batch(self, scheduled: Any, runner: Any) -> Batch:
        """The step that is scheduled, as predictors see it."""
        new_tokens, tokens = scheduled.num_scheduled_tokens, self._tokens
        requests = []
        for request_id, new in new_tokens.items():
            computed, known = tokens[request_id]
            requests.append(RequestStep(new, computed, computed + 1 < known))
        lora_ids = {self._lora_ids[name] for name in self._lora_ids.keys() & new_tokens.keys()}
        padded_tokens, launch = padded(runner, new_tokens, len(lora_ids))
        sampling = max(map(self._samplings.__getitem__, new_tokens), default=Sampling.GREEDY)
        return Batch(tuple(requests), padded_tokens, len(lora_ids), sampling, launch)

"""What a request takes in the servers before the scheduler has it, as a predictor's spec says."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from warpserve.patches.exact_sleep import sleep_ns
from warpserve.patches.versions import require_attributes
from warpserve.predictors.spec import Frontend, frontend_of_session


def delay_requests(module: ModuleType) -> None:
    """``module``: vllm.v1.engine.async_llm. Raises RuntimeError where it lacks a symbol.

    HTTP, tokenising and the way to the engine core and back take no virtual time in `exact`: each
    request waits as long as all of them together would. Requests wait beside each other: that many
    at once need one processor after the other is not said.
    """
    frontend = frontend_of_session()
    if frontend == Frontend():
        return
    require_attributes(module, ("AsyncLLM",))
    engine_class = module.AsyncLLM
    require_attributes(engine_class, ("add_request",))
    add_request = engine_class.add_request

    async def add_later(self: Any, request_id: str, prompt: Any, *rest: Any, **options: Any) -> Any:
        await sleep_ns(frontend.delay_ns(_prompt_tokens(prompt)))
        return await add_request(self, request_id, prompt, *rest, **options)

    engine_class.add_request = add_later


def _prompt_tokens(prompt: Any) -> int:
    """Of what vLLM's servers have made of it: a dict, or from older ones an EngineCoreRequest.

    0 for vectors in place of tokens.
    """
    if isinstance(prompt, dict):
        return len(prompt.get("prompt_token_ids") or ())
    return len(getattr(prompt, "prompt_token_ids", None) or ())

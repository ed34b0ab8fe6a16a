"""What a request takes in the servers before the scheduler has it, as a predictor's spec says."""

from __future__ import annotations

import asyncio
from types import ModuleType
from typing import Any

from warpserve.patches.versions import require_attributes
from warpserve.predictors.spec import request_host_ns_of_session


def delay_requests(module: ModuleType) -> None:
    """``module``: vllm.v1.engine.async_llm. Raises RuntimeError where it lacks a symbol.

    HTTP, tokenising and the way to the engine core and back take no virtual time in `exact`: each
    request waits as long as all of them together would. Requests wait beside each other: that many
    at once need one processor after the other is not said.
    """
    delay_s = request_host_ns_of_session() / 1e9
    if delay_s == 0:
        return
    require_attributes(module, ("AsyncLLM",))
    engine_class = module.AsyncLLM
    require_attributes(engine_class, ("add_request",))
    add_request = engine_class.add_request

    async def add_later(self: Any, *arguments: Any, **options: Any) -> Any:
        await asyncio.sleep(delay_s)
        return await add_request(self, *arguments, **options)

    engine_class.add_request = add_later

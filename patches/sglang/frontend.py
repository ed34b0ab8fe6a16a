"""What a request takes in the server before the scheduler has it, as a predictor's spec says."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from warpserve.patches.exact_sleep import sleep_ns
from warpserve.patches.versions import require_attributes
from warpserve.predictors.spec import Frontend, frontend_of_session


def delay_requests(module: ModuleType) -> None:
    """``module``: sglang.srt.managers.tokenizer_manager. Raises RuntimeError where it lacks a
    symbol.

    As with vLLM's. Prompts that are tokenised together (--enable-tokenizer-batch-encode) do not
    wait.
    """
    frontend = frontend_of_session()
    if frontend == Frontend():
        return
    require_attributes(module, ("TokenizerManager",))
    manager_class = module.TokenizerManager
    require_attributes(manager_class, ("_tokenize_one_request",))
    tokenize = manager_class._tokenize_one_request

    async def tokenize_longer(self: Any, *arguments: Any, **options: Any) -> Any:
        tokenized = await tokenize(self, *arguments, **options)
        await sleep_ns(frontend.delay_ns(len(tokenized.input_ids or ())))
        return tokenized

    manager_class._tokenize_one_request = tokenize_longer

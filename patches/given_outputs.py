"""Answers that requests say themselves, looked at where an engine looks at a request's parameters.

A request with a wrong one is refused. Further on, it would end the engine.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from types import ModuleType
from typing import Any

from warpserve.patches.imported import Action
from warpserve.patches.tokens import GIVEN_OUTPUT, given_token_ids
from warpserve.patches.versions import require_attributes


def refuse_wrong_outputs(extra: str, vocabulary_of: Callable[[Any], int]) -> Action:
    """For `after_import` of the module with SamplingParams.

    ``extra``: its field that an answer is given in; ``vocabulary_of``: the size, from what
    ``verify`` is told of the model.
    """

    def patch(module: ModuleType) -> None:
        require_attributes(module, ("SamplingParams",))
        parameters = module.SamplingParams
        require_attributes(parameters, ("verify",))
        verify = parameters.verify
        # Of another ValueError, vLLM's server answers 400, too, but hangs up.
        refusal = vars(module).get("VLLMValidationError", ValueError)

        @wraps(verify)
        def verify_all(self: Any, model: Any, *arguments: Any, **options: Any) -> Any:
            given = (getattr(self, extra) or {}).get(GIVEN_OUTPUT, ())
            try:
                given_token_ids(given, vocabulary_of(model))
            except ValueError as error:
                raise refusal(str(error)) from None
            return verify(self, model, *arguments, **options)

        parameters.verify = verify_all

    return patch

"""A look at a request's parameters, where and before an engine takes its own.

A request that is refused there is answered with an error. Further on, it would end the engine.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from types import ModuleType
from typing import Any

from warpserve.patches.imported import Action
from warpserve.patches.versions import require_attributes

Check = Callable[[Any, Any], object]
"""Of SamplingParams, and of what ``verify`` is told of the model. Raises ValueError to refuse."""


def verified_by(check: Check) -> Action:
    """For `after_import` of the module with SamplingParams."""

    def patch(module: ModuleType) -> None:
        require_attributes(module, ("SamplingParams",))
        parameters = module.SamplingParams
        require_attributes(parameters, ("verify",))
        verify = parameters.verify
        # Of another ValueError, vLLM's server answers 400, too, but hangs up.
        refusal = vars(module).get("VLLMValidationError", ValueError)

        @wraps(verify)
        def verify_all(self: Any, model: Any, *arguments: Any, **options: Any) -> Any:
            try:
                check(self, model)
            except ValueError as error:
                raise refusal(str(error)) from None
            return verify(self, model, *arguments, **options)

        parameters.verify = verify_all

    return patch

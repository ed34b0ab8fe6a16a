"""Answers that requests say themselves, looked at where an engine looks at their parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from warpserve.patches.imported import Action
from warpserve.patches.sampling_parameters import verified_by
from warpserve.patches.tokens import GIVEN_OUTPUT, given_token_ids


def refuse_wrong_outputs(extra: str, vocabulary_of: Callable[[Any], int]) -> Action:
    """For `after_import` of the module with SamplingParams.

    ``extra``: its field that an answer is given in; ``vocabulary_of``: the size, from what
    ``verify`` is told of the model.
    """

    def check(parameters: Any, model: Any) -> None:
        given = (getattr(parameters, extra) or {}).get(GIVEN_OUTPUT, ())
        given_token_ids(given, vocabulary_of(model))

    return verified_by(check)

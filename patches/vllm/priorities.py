"""Requests of one priority that arrived at one instant: who is first.

vLLM asks their ids, which have random digits in them: another order in each run. Here it is the one
in which they were added.
"""

from __future__ import annotations

import itertools
from functools import wraps
from types import ModuleType
from typing import Any

from warpserve.patches.versions import require_attributes

_PLACE = "_warpserve_place"


def number_requests(module: ModuleType) -> None:
    """``module``: vllm.v1.engine.core. Raises RuntimeError where it lacks a symbol."""
    require_attributes(module, ("EngineCore", "Request"))
    require_attributes(module.EngineCore, ("add_request",))
    add_request, places = module.EngineCore.add_request, itertools.count()

    @wraps(add_request)
    def add_numbered(self: Any, request: Any, *arguments: Any, **options: Any) -> Any:
        setattr(request, _PLACE, next(places))
        return add_request(self, request, *arguments, **options)

    module.EngineCore.add_request = add_numbered
    module.Request.__lt__ = _is_before


def _is_before(one: Any, other: Any) -> bool:
    return _key(one) < _key(other)


def _key(request: Any) -> tuple[int, float, int]:
    return request.priority, request.arrival_time, getattr(request, _PLACE)

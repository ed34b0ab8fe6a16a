"""What an engine core takes into a step: what arrived before the step's instant.

A step ends, the scheduler makes the next one, and at the same instant of virtual time a request
comes in. Whether it is in that step must not be up to the host. It is not in it: on a real GPU the
scheduler is there first, too. An engine core without work waits until nothing more happens at the
instant, so that requests of one instant share a step.
"""

from __future__ import annotations

import queue
import re
from collections.abc import Iterable
from types import ModuleType
from typing import Any

from warpserve.patches.instants import Order, SettledQueue
from warpserve.patches.versions import require_attributes

_RANDOM_ID = re.compile("[0-9a-f]{12,}")
"""In a UUID and in ids of vLLM's own. (It adds eight such digits to any id.)"""
_NUMBERS = re.compile("([0-9]+)")


def settle_arrivals(module: ModuleType) -> None:
    """``module``: vllm.v1.engine.core. Raises RuntimeError where it lacks a symbol."""
    require_attributes(module, ("EngineCore", "EngineCoreProc", "EngineCoreRequestType"))
    module.EngineCore.aborts_queue = _Settled("aborts_queue", list)
    module.EngineCoreProc.input_queue = _Settled("input_queue", in_one_order)


class _Settled:
    """An attribute: whichever new queue.Queue is put there is a SettledQueue."""

    def __init__(self, name: str, order: Order[Any]) -> None:
        self._name = name
        self._order = order

    def __get__(self, engine_core: Any, _owner: type) -> Any:
        return self if engine_core is None else vars(engine_core)[self._name]

    def __set__(self, engine_core: Any, new_queue: Any) -> None:
        if type(new_queue) is not queue.Queue or not new_queue.empty():
            raise RuntimeError(
                f"vLLM's {self._name} is not the new queue.Queue that warpserve knows"
            )
        vars(engine_core)[self._name] = SettledQueue(self._order)


def in_one_order(inputs: Iterable[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """Inputs of one instant: (EngineCoreRequestType, its data).

    Which of the requests that a client sends at one instant comes out of a server first is up to
    the host, too. They come in the order of the ids that the client gave them (``X-Request-Id``,
    as vLLM's own client numbers them), then those with random ids in the order of their prompts,
    then all else.
    """
    return sorted(inputs, key=_place)


def _place(item: tuple[Any, Any]) -> tuple[int, list[Any]]:
    kind, data = item
    if kind.name != "ADD":
        return 2, []
    request = data[0]
    if _RANDOM_ID.search(request.request_id):
        return 1, list(request.prompt_token_ids or ())
    return 0, _numbers_by_value(request.request_id)


def _numbers_by_value(name: str) -> list[str | int]:
    """For sorting: request-9 comes before request-10."""
    return [int(part) if part.isdecimal() else part for part in _NUMBERS.split(name)]

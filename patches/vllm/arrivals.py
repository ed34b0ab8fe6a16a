"""What an engine core takes into a step: what arrived before the step's instant.

A step ends, the scheduler makes the next one, and at the same instant of virtual time a request
comes in. Whether it is in that step must not be up to the host. It is not in it: on a real GPU the
scheduler is there first, too. An engine core without work waits until nothing more happens at the
instant, so that requests of one instant share a step.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import ModuleType
from typing import Any

from warpserve.patches.arrival_order import LAST, Place, place_of
from warpserve.patches.instants import SettledQueue
from warpserve.patches.versions import require_attributes
from warpserve.patches.vllm.queues import ReplacedQueue


def settle_arrivals(module: ModuleType) -> None:
    """``module``: vllm.v1.engine.core. Raises RuntimeError where it lacks a symbol."""
    require_attributes(module, ("EngineCore", "EngineCoreProc", "EngineCoreRequestType"))
    module.EngineCore.aborts_queue = ReplacedQueue("aborts_queue", lambda _: SettledQueue())
    module.EngineCoreProc.input_queue = ReplacedQueue(
        "input_queue", lambda _: SettledQueue(in_one_order)
    )


def in_one_order(inputs: Iterable[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """Inputs of one instant: (EngineCoreRequestType, its data).

    Which of the requests that a client sends at one instant comes out of a server first is up to
    the host, too. They come in the order of `place_of`, then all else.
    """
    return sorted(inputs, key=_place)


def _place(item: tuple[Any, Any]) -> Place:
    kind, data = item
    if kind.name != "ADD":
        return LAST
    request = data[0]
    return place_of(request.request_id, request.prompt_token_ids or ())

"""What a patched engine sees of an instant at which its threads race."""

from __future__ import annotations

import dataclasses
import heapq
import queue
import random
import threading
import time
import uuid
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from warpserve.patches.instants import SettledQueue
from warpserve.patches.vllm.arrivals import in_one_order, settle_arrivals
from warpserve.patches.vllm.priorities import number_requests


class Instant:
    """A clock that the test moves, and what others do before the instant ends."""

    def __init__(self) -> None:
        self.now_ns = 0
        self.settled = 0
        self.at_the_end: Callable[[], None] = lambda: None

    def settle(self) -> None:
        self.settled += 1
        self.at_the_end()

    def queue(self) -> SettledQueue[Any]:
        return SettledQueue(settle=self.settle, clock_ns=lambda: self.now_ns)


def drain(items: SettledQueue[Any]) -> list[Any]:
    """As an engine core's loop does."""
    drained = []
    while not items.empty():
        drained.append(items.get_nowait())
    return drained


def test_what_comes_at_the_instant_is_seen_at_the_next() -> None:
    instant = Instant()
    items = instant.queue()
    items.put("early")
    instant.now_ns = 5
    items.put("tied")
    assert drain(items) == ["early"]
    items.put("tied, too")
    with pytest.raises(queue.Empty):
        items.get_nowait()
    instant.now_ns = 6
    assert items.qsize() == 2
    assert drain(items) == ["tied", "tied, too"]
    assert instant.settled == 0


def test_an_item_of_a_later_instant_does_not_hide_those_before() -> None:
    instant = Instant()
    items = instant.queue()
    items.put("first")
    instant.now_ns = 1
    items.put("second")
    assert drain(items) == ["first"]


def test_a_reader_without_work_sees_its_whole_instant() -> None:
    instant = Instant()
    items = instant.queue()
    items.put("a")
    instant.at_the_end = lambda: items.put("b")
    assert items.get() == "a"
    assert drain(items) == ["b"]
    assert instant.settled == 1


def test_a_reader_with_something_to_read_does_not_wait() -> None:
    instant = Instant()
    items = instant.queue()
    items.put("a")
    instant.now_ns = 1
    items.put("b")
    assert items.get() == "a"
    assert instant.settled == 0
    assert items.get() == "b"
    assert instant.settled == 1


def test_a_reader_sleeps_until_something_comes() -> None:
    items = Instant().queue()
    threading.Timer(0.05, items.put, ["late"]).start()
    assert items.get() == "late"


def test_many_items_of_one_instant_take_linear_time() -> None:
    instant = Instant()
    items = instant.queue()
    for number in range(20_000):
        items.put(number)
    instant.now_ns = 1
    start_s = time.monotonic()
    assert drain(items) == list(range(20_000))
    assert time.monotonic() - start_s < 5


def request(request_id: str, *prompt: int) -> tuple[Any, Any]:
    return SimpleNamespace(name="ADD"), (
        SimpleNamespace(request_id=request_id, prompt_token_ids=list(prompt)),
        0,
    )


def abort(name: str) -> tuple[Any, Any]:
    return SimpleNamespace(name="ABORT"), [name]


def engine_core(module: ModuleType) -> Any:
    core = module.EngineCoreProc()
    core.input_queue = queue.Queue[tuple[Any, Any]]()
    core.aborts_queue = queue.Queue[list[str]]()
    return core


@pytest.fixture
def module() -> ModuleType:
    """As much of vllm.v1.engine.core as the patch touches."""
    module = ModuleType("core")
    base = type("EngineCore", (), {})
    vars(module).update(
        EngineCore=base, EngineCoreProc=type("EngineCoreProc", (base,), {}), EngineCoreRequestType=1
    )
    return module


def test_an_engine_cores_queues_are_settled(module: ModuleType) -> None:
    settle_arrivals(module)
    core, other = engine_core(module), engine_core(module)
    assert isinstance(core.input_queue, SettledQueue)
    assert isinstance(core.aborts_queue, SettledQueue)
    assert core.input_queue is not other.input_queue


def test_a_queue_of_another_kind_is_refused(module: ModuleType) -> None:
    settle_arrivals(module)
    with pytest.raises(RuntimeError, match="input_queue is not the new"):
        module.EngineCoreProc().input_queue = queue.LifoQueue()


def test_requests_of_one_instant_come_as_their_client_numbered_them() -> None:
    inputs = [request(f"cmpl-request-{n}-0-{n % 7}bcdef01") for n in range(12)]
    shuffled = random.Random(1).sample(inputs, len(inputs))
    assert in_one_order(shuffled) == inputs


def test_of_one_priority_and_instant_the_first_added_is_first() -> None:
    @dataclasses.dataclass(eq=False)
    class Request:
        request_id: str
        priority: int = 0
        arrival_time: float = 1.5

    class EngineCore:
        def __init__(self) -> None:
            self.waiting: list[Any] = []

        def add_request(self, request: Any, _wave: int = 0) -> None:
            heapq.heappush(self.waiting, request)

    module = ModuleType("core")
    vars(module).update(EngineCore=EngineCore, Request=Request)
    number_requests(module)
    core = EngineCore()
    for name in ("c", "a", "b"):
        core.add_request(Request(name), 0)
    core.add_request(Request("urgent", priority=-1))
    core.add_request(Request("earlier", arrival_time=1.0))
    found = [heapq.heappop(core.waiting).request_id for _ in range(5)]
    assert found == ["urgent", "earlier", "c", "a", "b"]


def test_requests_with_random_ids_come_in_the_order_of_their_prompts() -> None:
    x, a, b, c = (
        abort("x"),
        request(f"cmpl-{uuid.uuid4()}-0", 5, 1),
        request(f"chatcmpl-{uuid.uuid4().hex[:16]}-a6eeadd1", 2),
        request(f"cmpl-{uuid.uuid4()}-0", 2, 7),
    )
    named = request("cmpl-mine", 9)
    assert in_one_order([a, x, b, named, c]) == in_one_order([c, b, a, named, x])
    assert in_one_order([x, a, b, c, named]) == [named, b, c, a, x]

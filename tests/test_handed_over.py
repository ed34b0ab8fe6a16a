"""A queue whose reader is not kept waiting (patches/vllm/handed_over.py)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from warpserve.patches.vllm.handed_over import HandedOver

_END = "the end"
_LONG_S = 20.0


@contextmanager
def reading(queue: HandedOver, read: Callable[[Any], None]) -> Iterator[None]:
    """While a thread reads what is put, until it has read _END."""

    def run() -> None:
        for item in iter(queue.get, _END):
            read(item)
        queue.let_go()

    reader = threading.Thread(target=run)
    reader.start()
    try:
        yield
    finally:
        queue.put(_END)
        reader.join(_LONG_S)
        assert not reader.is_alive()


def await_reader(queue: HandedOver) -> None:
    """Until the reader waits for its first item."""
    while not queue._reader_waits:
        threading.Event().wait(0.001)


def test_the_reader_is_done_with_an_item_when_put_returns() -> None:
    queue, done = HandedOver(), list[int]()

    def read(item: int) -> None:
        threading.Event().wait(0.002)
        done.append(item)

    with reading(queue, read):
        await_reader(queue)
        for item in range(20):
            queue.put_nowait(item)
            assert done == list(range(item + 1))


def test_of_two_writers_each_is_let_go_when_all_is_read() -> None:
    queue, done = HandedOver(), list[int]()

    def write(first: int) -> None:
        for item in range(first, first + 200):
            queue.put(item)
            assert item in done

    with reading(queue, done.append):
        await_reader(queue)
        writers = [threading.Thread(target=write, args=(first,)) for first in (0, 1_000)]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join(_LONG_S)
            assert not writer.is_alive()
    assert sorted(done) == [*range(200), *range(1_000, 1_200)]
    assert [item for item in done if item < 1_000] == list(range(200))


def test_nobody_is_waited_for_before_there_is_a_reader() -> None:
    queue, done = HandedOver(), list[int]()
    queue.put(1)
    assert queue.get_nowait() == 1  # who does not wait is no reader
    queue.put(2)
    queue.put(3)
    with reading(queue, done.append):
        pass
    assert done == [2, 3]


def test_a_reader_that_has_gone_is_not_waited_for() -> None:
    queue = HandedOver()
    with reading(queue, lambda _: None):
        await_reader(queue)
    queue.put(1)
    assert queue.get_nowait() == 1

"""A scheduler of SGLang's that waits for copies and transfers, without SGLang."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

from warpserve.patches.sglang.idle import IdleSleeper
from warpserve.patches.sglang.pending import (
    progress_of_process,
    sleep_when_pending,
    tell_of_storage,
    tell_of_transfers,
)

LONG_MS = 60_000


class Inbox:
    """As much of an Inbox as a sleeper asks for."""

    def __init__(self) -> None:
        self._event = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self.shown = 0

    def fileno(self) -> int:
        return self._event

    def arrive(self) -> None:
        os.eventfd_write(self._event, 1)

    def has_any(self) -> bool:
        return False

    def show_instant(self) -> None:
        self.shown += 1

    def close(self) -> None:
        os.close(self._event)


@pytest.fixture
def inbox() -> Iterator[Inbox]:
    made = Inbox()
    yield made
    made.close()
    progress_of_process().forget()


@pytest.mark.parametrize("source", ["progress", "inbox"])
def test_it_sleeps_until_something_comes(inbox: Inbox, source: str) -> None:
    progress = progress_of_process()
    progress.forget()
    wake = progress.signal if source == "progress" else inbox.arrive
    sleeper = IdleSleeper(inbox, rpc=None)
    timer = threading.Timer(0.1, wake)
    began_s = time.monotonic()
    timer.start()
    sleeper.sleep_until(progress, LONG_MS)
    timer.join()
    assert 0.05 < time.monotonic() - began_s < LONG_MS / 1e3
    assert inbox.shown == 1


def test_it_looks_again_after_a_while(inbox: Inbox) -> None:
    progress_of_process().forget()
    IdleSleeper(inbox, rpc=None).sleep_until(progress_of_process(), 1)
    assert inbox.shown == 1


@pytest.mark.parametrize("is_fully_idle", [True, False])
def test_it_sleeps_while_something_is_pending(inbox: Inbox, is_fully_idle: bool) -> None:
    class Scheduler:
        idle_sleeper: Any = IdleSleeper(inbox, rpc=None)
        idled = 0

        def on_idle(self) -> None:
            self.idled += 1

        def is_fully_idle(self) -> bool:
            return is_fully_idle

    module = ModuleType("scheduler")
    vars(module)["Scheduler"] = Scheduler
    sleep_when_pending(module)
    progress_of_process().signal()
    scheduler = Scheduler()
    scheduler.on_idle()
    assert scheduler.idled == 1
    assert inbox.shown == (0 if is_fully_idle else 1)


def test_threads_tell_what_they_have_done() -> None:
    from queue import Queue

    class CommonKVManager:
        statuses: dict[int, str]

        def update_status(self, room: int, status: str) -> str:
            self.statuses = {room: status}
            return status

    storage, transfers = ModuleType("cache_controller"), ModuleType("conn")
    vars(storage)["Queue"] = Queue
    vars(transfers)["CommonKVManager"] = CommonKVManager
    tell_of_storage(storage)
    tell_of_transfers(transfers)
    progress = progress_of_process()
    for tell in (
        lambda: storage.Queue().put("page"),
        lambda: CommonKVManager().update_status(1, "there"),
    ):
        progress.forget()
        tell()
        assert os.eventfd_read(progress.fileno()) == 1

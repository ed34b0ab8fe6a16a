"""What a member has asked of the Timekeeper and waits for, as futures."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Generic, TypeAlias, TypeVar

from warpserve.errors import SessionError
from warpserve.timekeeper import wire
from warpserve.timekeeper.units import VirtualTime

_T = TypeVar("_T")
Reply = TypeVar("Reply", bound=wire.Body)
Replies: TypeAlias = list[tuple[wire.Header, Reply]]


class Pending(Generic[_T]):
    """A future that only the I/O thread ends: cancelling an asyncio wrapper does not end it."""

    def __init__(self) -> None:
        self.future: Future[_T] = Future()
        self.future.set_running_or_notify_cancel()


class PendingWait(Pending[VirtualTime]):
    def __init__(self, wait: wire.Wait) -> None:
        super().__init__()
        self.wait = wait


class PendingRequest(Pending[Replies[Reply]]):
    def __init__(self, asks: wire.Message, expects: type[Reply]) -> None:
        super().__init__()
        self.replies: Replies[Reply] = []
        self._asks = type(asks).__name__
        self._expects = expects

    def take(self, header: wire.Header, message: Any) -> bool:
        """Whether all is answered now. Raises SessionError where this is no answer."""
        if not isinstance(message, self._expects):
            raise SessionError(
                f"the Timekeeper answers {self._asks} with {type(message).__name__}, not "
                f"{self._expects.__name__}; use the same warpserve on both sides"
            )
        self.replies.append((header, message))
        return not isinstance(message, wire.StatusReply) or message.index + 1 >= message.count


def map_future(
    source: Future[Replies[Reply]], convert: Callable[[Replies[Reply]], _T]
) -> Future[_T]:
    """A future of the converted result."""
    target: Future[_T] = Future()
    target.set_running_or_notify_cancel()

    def finish(done: Future[Replies[Reply]]) -> None:
        try:
            result = convert(done.result())
        except Exception as error:  # raised here, it would be logged, and the target never end
            target.set_exception(error)
        else:
            target.set_result(result)

    source.add_done_callback(finish)
    return target

"""The process that hands requests to data-parallel replicas: it polls its socket in a loop."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from warpserve.patches.instants import settle
from warpserve.patches.sglang.arrivals import in_one_order
from warpserve.patches.versions import require_attributes


def block_controller(module: ModuleType) -> None:
    """``module``: sglang.srt.managers.data_parallel_controller.

    Raises RuntimeError where it lacks a symbol.
    """
    require_attributes(module, ("DataParallelController", "zmq"))
    controller_class = module.DataParallelController
    require_attributes(controller_class, ("event_loop",))
    # Without a way of its own to read them, messages are pickled.
    read = getattr(module, "sock_recv", _Received.recv_pyobj)

    def event_loop(self: Any) -> None:
        """Which replica a request goes to depends on those before it: those of one instant come in
        one order.
        """
        require_attributes(self, ("soft_watchdog", "recv_from_tokenizer", "_request_dispatcher"))
        while True:
            self.soft_watchdog.feed()
            self.recv_from_tokenizer.poll()
            settle()
            for message in in_one_order(_arrived(self.recv_from_tokenizer, module.zmq)):
                self._request_dispatcher(read(_Received(message)))

    controller_class.event_loop = event_loop


def _arrived(socket: Any, zmq: Any) -> list[bytes]:
    messages = []
    while True:
        try:
            messages.append(socket.recv(zmq.NOBLOCK))
        except zmq.Again:
            return messages


class _Received:
    """A socket with one message."""

    def __init__(self, message: bytes) -> None:
        self._message = message

    def recv(self, flags: int = 0) -> bytes:  # noqa: ARG002
        return self._message

    def recv_pyobj(self, flags: int = 0) -> Any:  # noqa: ARG002
        import pickle

        return pickle.loads(self._message)

"""vLLM's queue in shared memory, whose readers spin before they sleep."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from warpserve.patches.versions import require_attributes

_NEVER_SPIN_S = -1.0


def block_at_once(module: ModuleType) -> None:
    """``module``: vllm.distributed.device_communicators.shm_broadcast.

    A reader that waits sleeps on its notification socket at once: a thread that spins keeps virtual
    time from moving. Raises RuntimeError where the module lacks a symbol.
    """
    require_attributes(module, ("SpinCondition", "zmq"))
    condition_class = module.SpinCondition
    require_attributes(condition_class, ("notify",))
    make = condition_class.__init__
    notify = condition_class.notify

    def make_sleeper(self: Any, is_reader: bool, *arguments: Any, **options: Any) -> None:
        make(self, is_reader, *arguments, **options)
        require_attributes(self, ("busy_loop_s",))
        if is_reader:
            self.busy_loop_s = _NEVER_SPIN_S

    def notify_sleepers(self: Any) -> None:
        """The socket holds one notification and drops the next. That the one before has left it
        notices once a millisecond, or when it is asked for its events; a reader that had gone to
        sleep again by then would sleep for good.
        """
        self.local_notify_socket.getsockopt(module.zmq.EVENTS)
        notify(self)

    condition_class.__init__ = make_sleeper
    condition_class.notify = notify_sleepers

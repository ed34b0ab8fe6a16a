"""How tokens leave the engine core: at once, so that servers work while it makes the next step.

In `exact` time goes on when all are through with an instant: a server that gets its tokens later,
for want of the interpreter, is waited for.
"""

from __future__ import annotations

import os
from types import ModuleType
from typing import Any

from warpserve.patches.instants import is_exact
from warpserve.patches.versions import require_attributes
from warpserve.patches.vllm.handed_over import HandedOver
from warpserve.patches.vllm.held_outputs import INTERVAL_NS, HeldOutputs, Steps
from warpserve.patches.vllm.queues import ReplacedQueue


def hand_over_outputs(module: ModuleType) -> None:
    """``module``: vllm.v1.engine.core. Raises RuntimeError where it lacks a symbol."""
    if not is_exact():
        return
    require_attributes(module, ("EngineCoreProc", "EngineCoreOutputs"))
    core_class = module.EngineCoreProc
    require_attributes(core_class, ("process_output_sockets",))
    send_outputs = core_class.process_output_sockets

    def send_until_the_end(self: Any, *arguments: Any, **options: Any) -> None:
        try:
            send_outputs(self, *arguments, **options)
        finally:
            self.output_queue.let_go()

    core_class.process_output_sockets = send_until_the_end
    core_class.output_queue = ReplacedQueue("output_queue", _queue_of)


def _queue_of(engine_core: Any) -> HandedOver:
    interval_ns = os.environ.get(INTERVAL_NS)
    if interval_ns is None:
        return HandedOver()
    return HeldOutputs(Steps(engine_core, int(interval_ns)))

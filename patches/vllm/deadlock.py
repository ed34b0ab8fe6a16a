"""A scheduler that has requests and will never run one: the engine core says so and ends.

vLLM's engine core tries again every millisecond. On a GPU that is a server that hangs; in virtual
time it would be one that never stops.
"""

from __future__ import annotations

import time
from types import ModuleType
from typing import Any

from warpserve.patches.versions import require_attributes

_LIMIT_S = 10.0  # of virtual time, in which nothing can have changed


class SchedulerDeadlockError(RuntimeError):
    """No request runs, and the one whose turn it is does not get in."""


def end_deadlocks(module: ModuleType) -> None:
    """``module``: vllm.v1.engine.core. Raises RuntimeError where it lacks a symbol."""
    require_attributes(module, ("EngineCoreProc",))
    core_class = module.EngineCoreProc
    require_attributes(core_class, ("_process_engine_step",))
    process_step = core_class._process_engine_step
    stuck_since_s: float | None = None

    def _process_engine_step(self: Any) -> bool:
        nonlocal stuck_since_s
        was_executed: bool = process_step(self)
        if was_executed or not _is_stuck(self.scheduler):
            stuck_since_s = None
            return was_executed
        now_s = time.monotonic()
        if stuck_since_s is None:
            stuck_since_s = now_s
        if now_s - stuck_since_s > _LIMIT_S:
            raise SchedulerDeadlockError(_message(self.scheduler))
        return was_executed

    core_class._process_engine_step = _process_engine_step


def _is_stuck(scheduler: Any) -> bool:
    """Whether it could only go on by itself: none of its requests waits for anything else.

    Those that neither run nor wait for their turn do: for a decoder to fetch their blocks, or for
    blocks to come.
    """
    if scheduler.running or not scheduler.waiting or scheduler.pause_state.name != "UNPAUSED":
        return False
    if len(scheduler.requests) > len(scheduler.waiting):
        return False
    return scheduler.waiting.peek_request().status.name in ("WAITING", "PREEMPTED")


def _message(scheduler: Any) -> str:
    request = scheduler.waiting.peek_request()
    free_blocks = scheduler.kv_cache_manager.block_pool.get_num_free_blocks()
    return (
        f"warpserve: vLLM's scheduler is in a deadlock: for {_LIMIT_S:g} s of virtual time it has "
        f"run nothing, and {len(scheduler.waiting)} request(s) wait. First is "
        f"{request.request_id} with {request.num_tokens} tokens; {free_blocks} blocks of the KV "
        "cache are free. A real server would hang for good"
    )

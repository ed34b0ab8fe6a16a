"""Tokens that nobody looks at yet stay in the engine core.

After each step the engine core tells the servers its tokens, and in `exact` time goes on when they
are through with them. A server does nothing with the tokens of a request that is answered at its
end, and has no stop texts to look for: so its tokens can come several at a time, with the last of
them at the latest. `warpserve bench --fast` asks that way.

What the servers count is the same whenever it is read at a multiple of the interval that
$WARPSERVE_HELD_OUTPUTS names, but for the metrics in `DISTORTED`, for which each token's own
arrival counts.
"""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Iterable, Sequence
from typing import Any

from warpserve.patches.vllm.handed_over import HandedOver

INTERVAL_NS = "WARPSERVE_HELD_OUTPUTS"
"""For members: their metrics are read at multiples of so many ns of CLOCK_MONOTONIC."""

DISTORTED = (
    "vllm:time_to_first_token_seconds",
    "vllm:inter_token_latency_seconds",
    "vllm:request_time_per_output_token_seconds",
    "vllm:request_prefill_time_seconds",
    "vllm:request_decode_time_seconds",
    "vllm:iteration_tokens_total",
)
"""Metrics that count when a server sees a token. They mean nothing of held tokens."""

_OF_FIRST = frozenset({"prefill_stats", "num_cached_tokens", "num_external_computed_tokens"})
"""Fields of an EngineCoreOutput, by version, that come with a request's first token."""

_OF_STEP = frozenset({"engine_index", "timestamp", "weight_version"})
"""Fields of EngineCoreOutputs, by version, that all of a step's have; the last from 0.33 on."""

_LATEST_COUNTS = frozenset(
    {
        "num_running_reqs",
        "num_waiting_reqs",
        "num_skipped_waiting_reqs",
        "step_counter",
        "current_wave",
        "kv_cache_usage",
        "waiting_lora_adapters",
        "running_lora_adapters",
    }
)
"""Fields of SchedulerStats that say how things stand."""

_SUMMED = "prefix_cache_stats"
"""The field of SchedulerStats that counts since the last ones."""

_PARTS, _STEPS_APART = 8, 2
"""Tokens are kept for so many times so many steps: in every other step one of eight parts of the
requests get theirs, so that the servers work on them while the engine core makes the next step.
"""


class Steps:
    """What an engine core that has its worker in its own process knows of what comes."""

    def __init__(self, engine_core: Any, interval_ns: int) -> None:
        self._core = engine_core
        self._interval_ns = interval_ns

    def next_comes_unseen(self) -> bool:
        """Whether a step will end, with outputs of its own, before anybody reads metrics."""
        executor = getattr(self._core, "model_executor", None)
        worker = getattr(getattr(executor, "driver_worker", None), "worker", None)
        steps = getattr(worker, "virtual_steps", None)
        end_ns = steps.last_end_ns if steps is not None else None
        now_ns = time.monotonic_ns()
        if end_ns is None or end_ns <= now_ns:
            return False
        next_reading_ns = -(-now_ns // self._interval_ns) * self._interval_ns
        return bool(next_reading_ns >= end_ns)

    def is_answered_at_end(self, request_id: str) -> bool:
        """Whether a server does nothing with its tokens before the last has come."""
        request = self._core.scheduler.requests.get(request_id)
        sampling = request.sampling_params if request is not None else None
        return (
            sampling is not None and sampling.output_kind.name == "FINAL_ONLY" and not sampling.stop
        )


class HeldOutputs(HandedOver):
    """The engine core's queue of (index of a server, EngineCoreOutputs) to be sent."""

    def __init__(self, steps: Steps) -> None:
        super().__init__()
        self._steps = steps
        self._kept: dict[int, _Kept] = {}
        self._parts: dict[str, int] = {}
        """Which part each request is in whose tokens can wait, as its first ones have shown."""
        self._lock = threading.Lock()

    def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
        """As queue.Queue's. Keeps of it what can wait."""
        with self._lock:
            for ready in self._ready(item):
                super().put(ready, block, timeout)

    def _ready(self, item: Any) -> list[Any]:
        if not isinstance(item, tuple):  # the engine core is dead
            return [*self._released(), item]
        server, outputs = item
        kept = self._kept.setdefault(server, _Kept())
        kept.add(outputs)
        if not self._steps.next_comes_unseen():
            return self._released()
        due = [each.request_id for each in outputs.outputs if self._is_due(each, kept.part)]
        if not says_nothing_else(outputs):
            return [(server, kept.take())]
        return [(server, kept.take(due))] if due else []

    def _released(self) -> list[Any]:
        return [(server, kept.take()) for server, kept in self._kept.items() if kept]

    def _is_due(self, output: Any, part: int | None) -> bool:
        """Whether an EngineCoreOutput can't be kept any longer. ``part``: whose turn it is."""
        request_id = output.request_id
        if output.finish_reason is not None:
            self._parts.pop(request_id, None)
            return True
        own_part = self._parts.get(request_id)
        if own_part is not None:
            return own_part == part
        if not (is_token(output) and self._steps.is_answered_at_end(request_id)):
            return True
        self._parts[request_id] = len(self._parts) % _PARTS
        return False


class _Kept:
    """What one server has not been sent yet."""

    def __init__(self) -> None:
        self._messages = 0
        self._latest: Any = None
        """A message that all that is kept can go with; None: nothing is kept."""
        self._outputs: dict[str, list[Any]] = {}
        self._stats: list[Any] = []

    def __bool__(self) -> bool:
        return self._latest is not None

    @property
    def part(self) -> int | None:
        """Of the requests: whose tokens are to go with the latest message. None: nobody's."""
        turn, between = divmod(self._messages, _STEPS_APART)
        return None if between else turn % _PARTS

    def add(self, message: Any) -> None:
        """``message``: EngineCoreOutputs."""
        self._messages += 1
        self._latest = message
        for output in message.outputs:
            self._outputs.setdefault(output.request_id, []).append(output)
        if message.scheduler_stats is not None:
            self._stats.append(message.scheduler_stats)

    def take(self, request_ids: Iterable[str] | None = None) -> Any:
        """One EngineCoreOutputs with all figures, and all outputs or those of some requests.

        With what else the latest message says, if all are taken.
        """
        if request_ids is None:
            message, taken = self._latest, self._outputs
            self._outputs = {}
        else:
            message = _of_same_step(self._latest)
            taken = {request_id: self._outputs.pop(request_id) for request_id in request_ids}
        message.outputs = [_one_output(outputs) for outputs in taken.values()]
        message.scheduler_stats = _one_of_stats(self._stats)
        self._stats.clear()
        self._latest = _of_same_step(message) if self._outputs else None
        return message


def says_nothing_else(outputs: Any) -> bool:
    """Whether EngineCoreOutputs have no more than outputs, and figures that can be added up."""
    same = _of_same_step(outputs)
    same.outputs, same.scheduler_stats = outputs.outputs, outputs.scheduler_stats
    stats = outputs.scheduler_stats
    return bool(outputs == same) and (stats is None or _can_be_summed(stats))


def _of_same_step(outputs: Any) -> Any:
    """EngineCoreOutputs that say nothing yet."""
    known = _OF_STEP & set(outputs.__struct_fields__)
    return type(outputs)(**{name: getattr(outputs, name) for name in known})


def is_token(output: Any) -> bool:
    """Whether an EngineCoreOutput has tokens, what comes with the first of them, and no more."""
    kept = {name: getattr(output, name) for name in _OF_FIRST & set(output.__struct_fields__)}
    same = type(output)(output.request_id, output.new_token_ids, events=output.events, **kept)
    return bool(output == same)


def _one_output(outputs: list[Any]) -> Any:
    """Of one request, in their order."""
    latest = outputs[-1]
    if len(outputs) > 1:
        latest.new_token_ids = [token for output in outputs for token in output.new_token_ids]
        latest.events = [event for output in outputs for event in output.events or ()] or None
        for name in _OF_FIRST & set(latest.__struct_fields__):
            setattr(latest, name, getattr(outputs[0], name))
    return latest


def _can_be_summed(stats: Any) -> bool:
    others = {field.name for field in dataclasses.fields(stats)} - _LATEST_COUNTS - {_SUMMED}
    return not getattr(stats, _SUMMED).reset and not any(getattr(stats, name) for name in others)


def _one_of_stats(several: Sequence[Any]) -> Any:
    """Of SchedulerStats, if there are any; the latest says how things stand."""
    if not several:
        return None
    total = getattr(several[-1], _SUMMED)
    for stats in several[:-1]:
        for field in dataclasses.fields(total):
            if field.name != "reset":
                added = getattr(getattr(stats, _SUMMED), field.name)
                setattr(total, field.name, getattr(total, field.name) + added)
    return several[-1]

"""Tokens that stay in vLLM's engine core until somebody looks (patches/vllm/held_outputs.py)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import pytest

from warpserve.patches.vllm.held_outputs import HeldOutputs


@dataclass
class Output:
    """As EngineCoreOutput."""

    request_id: str
    new_token_ids: list[int]
    new_logprobs: str | None = None
    finish_reason: str | None = None
    events: list[str] | None = None
    prefill_stats: str | None = None
    __struct_fields__: ClassVar = (
        "request_id", "new_token_ids", "new_logprobs", "finish_reason", "events", "prefill_stats"
    )  # fmt: skip


@dataclass
class CacheStats:
    reset: bool = False
    queries: int = 0
    hits: int = 0


@dataclass
class Stats:
    """As SchedulerStats."""

    num_running_reqs: int = 0
    prefix_cache_stats: CacheStats = field(default_factory=CacheStats)
    spec_decoding_stats: str | None = None


@dataclass
class Outputs:
    """As EngineCoreOutputs."""

    engine_index: int = 0
    outputs: list[Output] = field(default_factory=list)
    scheduler_stats: Stats | None = None
    timestamp: float = 0.0
    utility_output: str | None = None
    weight_version: str | None = None
    __struct_fields__: ClassVar = (
        "engine_index", "outputs", "scheduler_stats", "timestamp", "utility_output",
        "weight_version",
    )  # fmt: skip


class Steps:
    """What comes next, as the test says."""

    def __init__(self) -> None:
        self.unseen = True
        self.streamed = {"streamed"}

    def next_comes_unseen(self) -> bool:
        return self.unseen

    def is_answered_at_end(self, request_id: str) -> bool:
        return request_id not in self.streamed


@pytest.fixture
def steps() -> Steps:
    return Steps()


@pytest.fixture
def held(steps: Steps) -> HeldOutputs:
    return HeldOutputs(steps)  # type: ignore[arg-type]


def sent(held: HeldOutputs) -> list[Any]:
    return [held.get_nowait() for _ in range(held.qsize())]


def tokens(request_id: str, *token_ids: int, **more: Any) -> Output:
    return Output(request_id, list(token_ids), **more)


def test_tokens_come_with_the_end_of_a_request(held: HeldOutputs) -> None:
    held.put((0, Outputs(outputs=[tokens("a", 1, events=["queued"], prefill_stats="all")])))
    held.put((0, Outputs(outputs=[tokens("a", 2), tokens("b", 7)], timestamp=1.0)))
    assert sent(held) == []
    held.put((0, Outputs(outputs=[tokens("a", 3, finish_reason="length")], timestamp=2.0)))
    a = tokens("a", 1, 2, 3, finish_reason="length", events=["queued"], prefill_stats="all")
    assert sent(held) == [(0, Outputs(outputs=[a], timestamp=2.0))]
    held.put((0, Outputs(outputs=[tokens("b", 8, finish_reason="length")], timestamp=3.0)))
    b = tokens("b", 7, 8, finish_reason="length")
    assert sent(held) == [(0, Outputs(outputs=[b], timestamp=3.0))]


def test_each_step_brings_the_tokens_of_a_part_of_the_requests(held: HeldOutputs) -> None:
    names = [str(i) for i in range(16)]
    told: dict[str, list[int]] = {name: [] for name in names}
    largest = 0
    for step in range(64):
        held.put((0, Outputs(outputs=[tokens(name, step) for name in names])))
        for _, outputs in sent(held):
            largest = max(largest, len(outputs.outputs))
            for output in outputs.outputs:
                told[output.request_id] += output.new_token_ids
    assert largest == 2
    for token_ids in told.values():
        assert token_ids == list(range(len(token_ids)))
        assert len(token_ids) >= 48


def test_what_all_of_a_step_says_keeps_nothing_from_waiting(held: HeldOutputs) -> None:
    held.put((0, Outputs(outputs=[tokens("a", 1)], weight_version="default")))
    assert sent(held) == []
    last = [tokens("a", 2, finish_reason="length")]
    held.put((0, Outputs(outputs=last, weight_version="default")))
    (both,) = sent(held)
    assert both == (
        0,
        Outputs(outputs=[tokens("a", 1, 2, finish_reason="length")], weight_version="default"),
    )


def test_all_servers_get_theirs_before_metrics_are_read(held: HeldOutputs, steps: Steps) -> None:
    held.put((0, Outputs(outputs=[tokens("a", 1)])))
    held.put((1, Outputs(outputs=[tokens("b", 2)])))
    steps.unseen = False
    held.put((0, Outputs(outputs=[tokens("a", 3)])))
    assert sent(held) == [
        (0, Outputs(outputs=[tokens("a", 1, 3)])),
        (1, Outputs(outputs=[tokens("b", 2)])),
    ]


def test_figures_are_added_up_and_the_latest_say_how_things_stand(held: HeldOutputs) -> None:
    for running, queries in ((3, 10), (4, 20)):
        stats = Stats(running, CacheStats(queries=queries, hits=1))
        held.put((0, Outputs(outputs=[tokens("a", 1)], scheduler_stats=stats)))
    held.put((0, Outputs(outputs=[tokens("a", 1, finish_reason="stop")], scheduler_stats=Stats(5))))
    ((_, outputs),) = sent(held)
    assert outputs.scheduler_stats == Stats(5, CacheStats(queries=30, hits=2))


@pytest.mark.parametrize(
    "outputs",
    [
        Outputs(outputs=[tokens("streamed", 1)]),
        Outputs(outputs=[tokens("a", 1, new_logprobs="some")]),
        Outputs(utility_output="an answer"),
        Outputs(scheduler_stats=Stats(spec_decoding_stats="some")),
        Outputs(scheduler_stats=Stats(prefix_cache_stats=CacheStats(reset=True))),
    ],
    ids=["streamed", "log probabilities", "answer to a call", "drafts", "cache reset"],
)
@pytest.mark.parametrize("unseen", [True, False])
def test_what_somebody_looks_at_goes_at_once(
    held: HeldOutputs, steps: Steps, outputs: Outputs, unseen: bool
) -> None:
    steps.unseen = unseen
    held.put((0, outputs))
    assert sent(held) == [(0, outputs)]
    held.put((0, Outputs(outputs=[tokens("a", 2, finish_reason="length")])))
    assert sent(held) == [(0, Outputs(outputs=[tokens("a", 2, finish_reason="length")]))]


def test_a_dead_engine_core_keeps_nothing(held: HeldOutputs) -> None:
    held.put((0, Outputs(outputs=[tokens("a", 1)])))
    held.put(b"ENGINE_CORE_DEAD")
    assert sent(held) == [(0, Outputs(outputs=[tokens("a", 1)])), b"ENGINE_CORE_DEAD"]

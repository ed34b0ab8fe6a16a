"""NCCL between processes: what operations compute, when they end, and what is said when they can't.

The ranks are those of ``tests/cuda/nccl.py``, processes that open the library by path with ctypes.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import Any

import pytest

from tests.harness import Outcome, Warpserve

CLIENT = Path(__file__).parent / "cuda" / "nccl.py"
RANKS = (2, 3, 4, 8)
MS = 1_000_000
STALLED = 96
UINT8_OR_LESS = (0, 1, 10, 11)
INT32, FLOAT16, FLOAT32 = 2, 6, 7
INVALID_ARGUMENT, INVALID_USAGE, REMOTE_ERROR, IN_PROGRESS = 4, 5, 6, 7
# The cost model of NCCL, in ns: 2(n - 1) hops of 600 ns after 6600 ns, and the 8 bytes.
SMALL_ALL_REDUCE = {ranks: 6600 + 2 * (ranks - 1) * 600 + 1 for ranks in RANKS}


def start(
    warpserve: Warpserve,
    scenario: str,
    ranks: int,
    gpu: str = "h100-sxm:8",
    *options: str,
    env: dict[str, str] | None = None,
) -> Outcome:
    return warpserve.run(
        [sys.executable, CLIENT, scenario, str(ranks)],
        options=["--gpu", gpu, *options],
        env={"WARPSERVE_CUDA": "13", **(env or {})},
    )


def run(warpserve: Warpserve, scenario: str, ranks: int, gpu: str = "h100-sxm:8") -> list[Any]:
    """What each rank found."""
    done = start(warpserve, scenario, ranks, gpu)
    assert done.exit_code == 0, done.stdout + done.stderr
    found: list[Any] = json.loads(done.stdout.splitlines()[-1])
    return found


# What operations compute

REDUCTIONS: dict[int, Callable[[int, int], int]] = {
    0: lambda a, b: a + b,
    1: lambda a, b: a * b,
    2: max,
    3: min,
}


def expected(name: str, op: int, sent: list[list[int]], rank: int) -> list[int]:
    """What `rank` has in its 2n elements after an operation on 2 elements a rank."""
    ranks, root = len(sent), len(sent) - 1
    zeros = [0] * (2 * ranks)

    def reduced(offset: int) -> list[int]:
        return [reduce(REDUCTIONS[op], (row[offset + i] for row in sent)) for i in range(2)]

    gathered = [value for row in sent for value in row[:2]]
    first = {
        "AllReduce": reduced(0),
        "Reduce": reduced(0) if rank == root else [],
        "Broadcast": sent[root][:2],
        "Bcast": sent[root][:2],
        "AllGather": gathered,
        "ReduceScatter": reduced(2 * rank),
        "AlltoAll": [value for row in sent for value in row[2 * rank : 2 * rank + 2]],
        "Gather": gathered if rank == root else [],
        "Scatter": sent[root][2 * rank : 2 * rank + 2],
    }[name]
    rest = sent[rank] if name == "Bcast" else zeros
    return first + rest[len(first) :]


@pytest.mark.parametrize("ranks", RANKS)
def test_collectives_compute_what_the_mathematics_say(warpserve: Warpserve, ranks: int) -> None:
    found = run(warpserve, "collectives", ranks)
    for rank, results in enumerate(found):
        assert len(results) == 12 * (3 * 4 + 6)
        for call, values in results.items():
            name, kind, op = call.split()
            modulus = 2 if int(kind) in UINT8_OR_LESS else 3
            sent = [[(r + i) % modulus for i in range(2 * ranks)] for r in range(ranks)]
            assert values == expected(name, int(op), sent, rank), (rank, call)


def test_averages_and_scaled_sums(warpserve: Warpserve) -> None:
    for found in run(warpserve, "averages", 2):
        assert found == {
            # 1 and 2, 2 and 3
            f"avg {FLOAT32}": [1.5, 2.5],
            f"avg {FLOAT16}": [1.5, 2.5],
            # 3 and 4, -4 and -3: integers divide towards zero
            f"avg {INT32}": [3, -3],
            "scaled 0": [4 * 0.5 + 4 * 1.5, 8 * 0.5 + 8 * 1.5],
            "scaled 1": [4 * 0.5 + 4 * 1.5, 8 * 0.5 + 8 * 1.5],
            "destroyed": INVALID_ARGUMENT,
        }


@pytest.mark.parametrize("ranks", RANKS)
def test_messages_of_a_group_go_together(warpserve: Warpserve, ranks: int) -> None:
    found = run(warpserve, "messages", ranks)
    for rank, told in enumerate(found):
        left = 10 * ((rank - 1) % ranks)
        assert told["before"] == 0
        assert told["values"] == [left, left + 1, 10 * rank + 2]
    assert len({told["end"] for told in found}) == 1


def test_messages_without_groups_are_in_order(warpserve: Warpserve) -> None:
    found = run(warpserve, "pipeline", 4)
    assert found == [[100 * i + rank for i in range(3)] for rank in range(4)]


def test_captured_operations_meet_at_each_replay(warpserve: Warpserve) -> None:
    ranks = 4
    found = run(warpserve, "graph", ranks)
    total = sum(range(1, ranks + 1))
    late_ns = (ranks - 1) * MS + 2 * SMALL_ALL_REDUCE[ranks]
    for rank, told in enumerate(found):
        # Two all-reduces in place: the sum, then the sum of equal sums.
        assert told["values"] == [rank + 1, total * ranks, total * ranks**3]
        assert told["ends"] == [late_ns, late_ns]


def test_communicators_split_and_shrink(warpserve: Warpserve) -> None:
    found = run(warpserve, "splits", 4)
    for rank, told in enumerate(found):
        # The keys are -rank: the higher one of each parity is rank 0.
        assert told["half"] == [1 if rank < 2 else 0, 2, rank]
        assert told["half_sum"] == (2 if rank % 2 == 0 else 4)
        assert told["rest"] == (None if rank == 1 else 0 + 2 + 3)
        if rank > 0:
            assert told["fewer"] == [rank - 1, 3, rank]
            assert told["fewer_sum"] == 1 + 2 + 3
        assert told["destroyed"] == INVALID_ARGUMENT


def test_one_thread_drives_all_ranks(warpserve: Warpserve) -> None:
    [found] = run(warpserve, "threads", 4)
    # All are summed, then the halves of equal sums.
    assert [value for _, value in found] == [2 * 10] * 4


def test_compute_memory_only_takes_time(warpserve: Warpserve) -> None:
    found = run(warpserve, "compute", 2)
    # 370.8 GB/s of NVLink as NCCL counts it; Simple in a ring: 8.4 us and two hops of 3.4 us.
    took = math.ceil(8400 + 2 * 3400 + (32 << 20) / 370.8)
    assert [told["took"] for told in found] == [took] * 2
    assert [told["small"] for told in found] == [0, 1]


# Time


@pytest.mark.parametrize("ranks", RANKS)
def test_operations_begin_with_the_last_rank_and_end_together(
    warpserve: Warpserve, ranks: int
) -> None:
    found = run(warpserve, "late", ranks)
    took = SMALL_ALL_REDUCE[ranks]
    last = (ranks - 1) * MS
    for told in found:
        assert told == {
            "together": took,
            "enqueued": 0,
            "device": last + took,
            "host": last + took,
            "twice": ranks * MS + 2 * took,
        }


@pytest.mark.parametrize(
    ("gpu", "took"),
    [
        # PCIe: hops of 1 us
        ("l40s:2", 6600 + 2 * 1000 + 1),
        ("a100-80:8", 6600 + 2 * 600 + 1),
    ],
)
def test_time_depends_on_the_links(warpserve: Warpserve, gpu: str, took: int) -> None:
    assert {told["together"] for told in run(warpserve, "late", 2, gpu)} == {took}


def test_settings_of_nccl_count_or_are_said_not_to(warpserve: Warpserve) -> None:
    settings = {"NCCL_NVLS_ENABLE": "0", "NCCL_ALGO": "Tree"}
    done = start(warpserve, "compute", 4, env=settings)
    # In a ring of four; the switch that adds would be faster.
    took = math.ceil(8400 + 2 * 3 * 3400 + (32 << 20) / (370.8 * 4 / 6))
    assert [told["took"] for told in json.loads(done.stdout)] == [took] * 4
    assert "NCCL_ALGO would change the time" in done.stderr


def test_time_never_passes_while_a_rank_can_run(warpserve: Warpserve) -> None:
    done = start(warpserve, "late", 3, "h100-sxm:3", "--audit")
    assert done.exit_code == 0, done.stderr
    assert done.session.audit.advances_checked > 0
    assert done.session.audit.violations == 0


# What can't go on


def test_wrong_arguments_are_said_at_once(warpserve: Warpserve) -> None:
    for told in run(warpserve, "wrong", 2):
        assert told.pop("none") == 0
        assert told.pop("group_end") == INVALID_USAGE
        assert set(told.values()) == {INVALID_ARGUMENT}


def test_two_ranks_need_two_gpus(warpserve: Warpserve) -> None:
    assert run(warpserve, "same_device", 2) == [INVALID_USAGE] * 2


def test_a_rank_that_never_comes_stalls_the_session(warpserve: Warpserve) -> None:
    done = start(warpserve, "missing", 3)
    assert done.exit_code == STALLED
    assert done.session.stalled
    assert re.search(r"AllReduce of 3 ranks lacks rank 1 \(process \d+\)$", done.stderr, re.M)


def test_a_rank_that_never_joins_stalls_the_session(warpserve: Warpserve) -> None:
    done = start(warpserve, "absent", 3)
    assert done.exit_code == STALLED
    assert re.search(r"Init of 3 ranks lacks rank 1 \(has not joined\)$", done.stderr, re.M)


def test_a_message_that_is_never_sent_stalls_the_session(warpserve: Warpserve) -> None:
    done = start(warpserve, "never_sent", 2)
    assert done.exit_code == STALLED
    waiting = r"rank 1 \(process \d+\) waits in Recv for rank 0 \(process \d+\)$"
    assert re.search(waiting, done.stderr, re.M)


def test_ranks_learn_that_one_was_killed_and_go_on(warpserve: Warpserve) -> None:
    *others, gone = run(warpserve, "killed", 3)
    assert gone is None
    for told in others:
        assert told["error"] == told["again"] == REMOTE_ERROR
        assert "AllReduce of 1 int64, sum lacks rank 2" in told["message"]
        assert told["sum"] == 0 + 1


def test_ranks_that_disagree_are_told(warpserve: Warpserve) -> None:
    for told in run(warpserve, "mismatch", 2):
        assert told["error"] == INVALID_USAGE
        assert "rank 0 calls AllReduce of 1 int64, sum, rank 1 AllReduce of 2" in told["message"]
    for told in run(warpserve, "wrong_message", 2):
        assert told["error"] == INVALID_USAGE
        assert "Send of 1 int64, and Recv of 2 int64" in told["message"]


def test_communicators_can_be_made_in_the_background(warpserve: Warpserve) -> None:
    assert (
        run(warpserve, "nonblocking", 3)
        == [{"bad": INVALID_ARGUMENT, "made": IN_PROGRESS, "error": 0, "sum": 3}] * 3
    )


# The rest


def test_versions_words_memory_and_registration(warpserve: Warpserve) -> None:
    for told in run(warpserve, "other_api", 2):
        assert told["version"] == 22809
        assert told["words"][0] == "no error"


def test_memory_does_not_grow_with_operations(warpserve: Warpserve) -> None:
    assert max(run(warpserve, "many", 2)) < 8 * 1024


# Ghost ranks

GHOSTS = CLIENT.with_name("ghosts.py")


def test_ghost_ranks_take_part_as_real_ones_do(warpserve: Warpserve) -> None:
    """One process stands for eight that do the same: the times are those of eight processes."""
    done = warpserve.run(
        [sys.executable, GHOSTS, "8"],
        options=["--gpu", "h100-sxm:8"],
        env={"WARPSERVE_CUDA": "13", "WARPSERVE_GHOST_RANKS": "1"},
    )
    assert done.exit_code == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["ncclAllReduce"] == [[8.0, 16.0], SMALL_ALL_REDUCE[8]]
    _, large_ns = found["large"]
    assert large_ns > SMALL_ALL_REDUCE[8]
    assert found["split"] == 8
    assert found["gathered"] == [7.0] * 8
    assert found["after_send"] != 0
    assert "ghost ranks can't send and receive" in done.stderr

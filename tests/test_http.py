"""Real HTTP servers and clients: the same timestamps, whatever the load of the machine."""

from __future__ import annotations

import contextlib
import itertools
import json
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest

from tests.harness import CLIENTS, Warpserve

MS = 1_000_000
REQUESTS = 40

BusyCores = Callable[[], AbstractContextManager[None]]


def four_runs(warpserve: Warpserve, busy_cores: BusyCores, *command: str) -> list[str]:
    """What the command prints: twice with the machine at rest, twice with all cores busy."""
    runs = [
        (contextlib.nullcontext, []),
        (contextlib.nullcontext, []),
        (busy_cores, []),
        (busy_cores, ["--audit"]),  # exit code 98 where an advance came too early
    ]
    printed = []
    for load, options in runs:
        with load():
            outcome = warpserve.run([sys.executable, *command], options=options, limit_s=120)
        assert outcome.exit_code == 0, outcome.stderr
        printed.append(outcome.stdout)
    return printed


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_aiohttp_against_uvicorn_is_the_same_idle_and_under_load(
    warpserve: Warpserve, busy_cores: BusyCores, loop: str
) -> None:
    client = str(CLIENTS / "http_client.py")
    printed = four_runs(warpserve, busy_cores, client, loop, str(REQUESTS))
    assert len(set(printed)) == 1
    check_laws(json.loads(printed[0]))


def check_laws(records: list[dict[str, Any]]) -> None:
    """What must hold of any run, so that four wrong but equal ones do not pass."""
    assert [record["number"] for record in records] == list(range(REQUESTS))
    assert sum(len(record["chunks"]) for record in records) > 5 * REQUESTS
    for record in records:
        stamps = [record["sent_ns"], record["headers_ns"]]
        for number, (read_ns, (chunk, _, written_ns, _)) in enumerate(record["chunks"]):
            assert chunk == number
            assert written_ns <= read_ns
            stamps.append(read_ns)
        stamps.append(record["ended_ns"])
        assert all(a <= b for a, b in itertools.pairwise(stamps))
        # The message took no time, and so did the work of both sides.
        assert record["chunks"][0][1][1] >= record["sent_ns"]
    offsets = {written - wall for r in records for _, (_, _, written, wall) in r["chunks"]}
    assert len(offsets) == 1  # the wall clock and the monotonic one go together


def test_http_server_in_threads_is_exact(warpserve: Warpserve, busy_cores: BusyCores) -> None:
    printed = four_runs(warpserve, busy_cores, str(CLIENTS / "threaded_http.py"))
    assert len(set(printed)) == 1
    records = json.loads(printed[0])
    assert len(records) == 20
    for _, request, sent_ns, answered_ns, read_ns in records:
        assert answered_ns - sent_ns == 10 * (request + 1) * MS
        assert read_ns == answered_ns

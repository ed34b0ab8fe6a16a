"""Workloads as lengths: how many tokens each request brings, and how many it asks for."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from warpserve.errors import WarpserveError

_SHIPPED = {"sharegpt": Path(__file__).parent / "sharegpt" / "llama-3.1-8b.csv"}
_COLUMNS = ("arrival_time_ns", "input_toks", "output_toks")


class WorkloadError(WarpserveError):
    """A workload does not exist, or can't be read as one."""


class RequestLengths(NamedTuple):
    """One request. ``arrival_ns`` counts from the start of the workload."""

    arrival_ns: int
    input_tokens: int
    output_tokens: int


def lengths_of(workload: str, count: int) -> list[RequestLengths]:
    """The first ``count`` requests of a shipped workload, or of a CSV file with its columns.

    A workload with fewer starts over, at the time at which it ended. Raises WorkloadError.
    """
    path = _SHIPPED.get(workload, Path(workload))
    if not path.is_file():
        raise WorkloadError(f"no workload {workload!r}: say {', '.join(_SHIPPED)} or a CSV file")
    rows = _read(path)
    span_ns = rows[-1].arrival_ns
    return [_shifted(rows[i % len(rows)], i // len(rows) * span_ns) for i in range(count)]


def _shifted(request: RequestLengths, by_ns: int) -> RequestLengths:
    return request._replace(arrival_ns=request.arrival_ns + by_ns)


def _read(path: Path) -> Sequence[RequestLengths]:
    with path.open(newline="") as file:
        table = csv.DictReader(file)
        if tuple(table.fieldnames or ()) != _COLUMNS:
            raise WorkloadError(f"{path}: the columns must be {', '.join(_COLUMNS)}")
        rows = [_row(path, number, row) for number, row in enumerate(table, start=2)]
    if not rows:
        raise WorkloadError(f"{path} has no requests")
    for number, (before, after) in enumerate(pairwise(rows), start=3):
        if after.arrival_ns < before.arrival_ns:
            raise WorkloadError(f"{path}, line {number}: arrives before the request above it")
    return rows


def _row(path: Path, line: int, row: dict[str, str]) -> RequestLengths:
    try:
        arrival_ns, input_tokens, output_tokens = (int(row[column]) for column in _COLUMNS)
    except (TypeError, ValueError):
        raise WorkloadError(f"{path}, line {line}: three whole numbers are needed") from None
    if arrival_ns < 0 or input_tokens < 1 or output_tokens < 1:
        raise WorkloadError(
            f"{path}, line {line}: a request arrives at 0 ns or later and has at least a token "
            "each way"
        )
    return RequestLengths(arrival_ns, input_tokens, output_tokens)

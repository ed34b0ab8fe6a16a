"""ServeGen: clients of a production service, each with a rate, burstiness and lengths of its own.

Xiang et al., *ServeGen: Workload Characterization and Generation of Large Language Model Serving in
Production*. Its data says, for each client and each window of time, the distribution of the
intervals between its requests (gamma or Weibull, with their shape) and its rate, and for longer
windows how often each input and output length occurs. Requests are drawn from that: in a window as
many as its rate says, at intervals of its distribution, stretched to fill it.
"""

from __future__ import annotations

import ast
import csv
import io
import json
import math
import zipfile
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from warpserve.bench.workload.options import options_of
from warpserve.bench.workload.request import Request, WorkloadError

_SHIPPED = Path(__file__).parent / "servegen"
_TRACE, _DATASET = "-trace.csv", "-dataset.json"


class ServeGenOptions(BaseModel):
    """``servegen``."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    clients: str = "m-small"
    """m-small, deepseek-r1, or a folder of the repository's ``data``."""
    start_s: Annotated[int, Field(ge=0)] | None = None
    """Within the recorded days; None: where the window with the most requests begins."""


class Window(NamedTuple):
    """How one client sends for a while."""

    rate: float
    """Requests a second; 0: none."""
    distribution: str
    shape: float


Lengths = tuple[NDArray[np.int64], NDArray[np.float64]]
"""Tokens, and the share of requests that have at most so many."""


@dataclass(frozen=True)
class Client:
    """Windows by their start in s; tables of lengths for those in which the client sent."""

    name: str
    windows: Mapping[int, Window]
    tables: Mapping[int, tuple[str, str]]

    def lengths_at(self, at_s: int) -> tuple[Lengths, Lengths]:
        """Of inputs and outputs: of the last table that begins by then, else of the first."""
        starts = list(self.tables)
        inputs, outputs = self.tables[starts[max(0, bisect_right(starts, at_s) - 1)]]
        return _lengths(self.name, inputs), _lengths(self.name, outputs)


def servegen_requests(workload: str, count: int, seed: int) -> list[Request]:
    """The first ``count`` requests of all clients. Raises WorkloadError."""
    options = options_of(ServeGenOptions, workload)
    clients = servegen_clients(options.clients)
    starts = sorted(clients[0].windows)
    if len(starts) < 2:
        raise WorkloadError(
            f"ServeGen's {clients[0].name}{_TRACE}: two windows at least are needed, which say how "
            "long one is"
        )
    window_s = starts[1] - starts[0]
    start_s = _busiest(clients) if options.start_s is None else options.start_s
    requests: list[Request] = []
    for begin_s in starts:
        if begin_s + window_s <= start_s:
            continue
        missing = count - len(requests)
        requests += _window_requests(clients, begin_s, window_s, start_s, seed, missing)
        if len(requests) == count:
            return requests
    raise WorkloadError(
        f"{workload}: from {start_s} s on, {len(requests)} requests are recorded, not {count}"
    )


def _window_requests(
    clients: tuple[Client, ...], begin_s: int, window_s: int, start_s: int, seed: int, count: int
) -> list[Request]:
    """The first ``count`` or fewer, in the order of arrival, which counts from ``start_s``."""
    columns = []
    for index, client in enumerate(clients):
        window = client.windows.get(begin_s)
        if window is None or window.rate == 0:
            continue
        entropy = np.random.SeedSequence([seed, index, begin_s])
        random = np.random.RandomState(np.random.MT19937(entropy))
        times_s = begin_s - start_s + _arrivals_s(window, window_s, random)
        lengths = [_drawn(random, table, len(times_s)) for table in client.lengths_at(begin_s)]
        columns.append(np.vstack([np.rint(times_s * 1e9), *lengths]))
    if not columns:
        return []
    rows = np.concatenate(columns, axis=1).astype(np.int64).T
    rows = rows[rows[:, 0] >= 0]
    chosen = rows[np.argsort(rows[:, 0], kind="stable")][:count]
    return [
        Request(input_tokens, output_tokens, arrival_ns=arrival_ns)
        for arrival_ns, input_tokens, output_tokens in chosen.tolist()
    ]


def _arrivals_s(
    window: Window, window_s: int, random: np.random.RandomState
) -> NDArray[np.float64]:
    """From the window's start; a part of a request comes with that probability."""
    count = math.floor(window.rate * window_s + random.random_sample())
    if window.distribution == "Weibull":
        intervals = random.weibull(window.shape, count + 1)
    else:
        intervals = random.gamma(window.shape, size=count + 1)
    return np.asarray(np.cumsum(intervals)[:-1] * (window_s / intervals.sum()))


def _drawn(random: np.random.RandomState, lengths: Lengths, count: int) -> NDArray[np.int64]:
    tokens, shares = lengths
    indices = np.searchsorted(shares, random.random_sample(count), side="right")
    return tokens[np.minimum(indices, len(tokens) - 1)]


def _busiest(clients: tuple[Client, ...]) -> int:
    rates: dict[int, float] = {}
    for client in clients:
        for begin_s, window in client.windows.items():
            rates[begin_s] = rates.get(begin_s, 0.0) + window.rate
    return max(rates, key=lambda begin_s: rates[begin_s])


@cache
def servegen_clients(name: str) -> tuple[Client, ...]:
    """Of a shipped archive or a folder. Raises WorkloadError."""
    archive = _SHIPPED / f"{name}.zip"
    files = _archived(archive) if archive.is_file() else _in_folder(Path(name))
    stems = [file.removesuffix(_DATASET) for file in files if file.endswith(_DATASET)]
    named = [stem for stem in stems if stem + _TRACE in files]
    if not named:
        shipped = ", ".join(sorted(path.stem for path in _SHIPPED.glob("*.zip")))
        raise WorkloadError(
            f"no ServeGen clients {name!r}: say {shipped}, or a folder with "
            f"chunk-0{_TRACE} and chunk-0{_DATASET}"
        )
    return tuple(
        _client(stem, files[stem + _TRACE], files[stem + _DATASET]) for stem in sorted(named)
    )


def _archived(path: Path) -> dict[str, str]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name).decode() for name in archive.namelist()}


def _in_folder(path: Path) -> dict[str, str]:
    files = [*path.glob(f"*{_TRACE}"), *path.glob(f"*{_DATASET}")]
    return {file.name: file.read_text() for file in files}


def _client(name: str, trace: str, dataset: str) -> Client:
    try:
        windows = {
            int(row[0]): Window(float(row[1]), row[3], float(row[4]))
            for row in csv.reader(io.StringIO(trace))
        }
        tables = {
            int(begin_s): (table["input_tokens"], table["output_tokens"])
            for begin_s, table in json.loads(dataset).items()
            if table["input_tokens"] != "{}" and table["output_tokens"] != "{}"
        }
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise WorkloadError(f"ServeGen's {name} can't be read: {error!r}") from None
    for begin_s, window in windows.items():
        is_known = window.distribution in ("Gamma", "Weibull") and window.shape > 0
        if not 0 <= window.rate < math.inf or (window.rate > 0 and not (is_known and tables)):
            raise WorkloadError(
                f"ServeGen's {name}{_TRACE}, {begin_s} s: a rate, Gamma or Weibull and a shape are "
                f"needed, not {window}"
            )
    return Client(name, windows, dict(sorted(tables.items())))


@cache
def _lengths(client: str, table: str) -> Lengths:
    """``table``: probabilities by length, as Python writes a dict."""
    try:
        shares = {int(tokens): float(share) for tokens, share in ast.literal_eval(table).items()}
    except (ValueError, SyntaxError, TypeError, AttributeError) as error:
        raise WorkloadError(f"ServeGen's {client}{_DATASET} can't be read: {error!r}") from None
    if not all(0 <= share <= 1 for share in shares.values()) or sum(shares.values()) == 0:
        raise WorkloadError(f"ServeGen's {client}{_DATASET}: shares are from 0 to 1, one above 0")
    tokens = np.asarray([max(1, tokens) for tokens in shares])
    cumulative = np.cumsum(list(shares.values()))
    return tokens, cumulative / cumulative[-1]

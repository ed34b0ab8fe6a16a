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
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
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


@dataclass(frozen=True)
class Lengths:
    """How often each length occurs."""

    tokens: np.ndarray[Any, np.dtype[np.int64]]
    cumulative: np.ndarray[Any, np.dtype[np.float64]]

    def draw(self, random: np.random.RandomState) -> int:
        index = int(np.searchsorted(self.cumulative, random.random_sample(), side="right"))
        return int(self.tokens[min(index, len(self.tokens) - 1)])


@dataclass(frozen=True)
class Client:
    """Windows by their start in s; lengths only for those in which the client sent anything."""

    name: str
    windows: Mapping[int, Window]
    lengths: Mapping[int, tuple[Lengths, Lengths]]

    def lengths_at(self, at_s: int) -> tuple[Lengths, Lengths]:
        """Of the last window that begins by then and has any, else of the first."""
        starts = list(self.lengths)
        return self.lengths[starts[max(0, bisect_right(starts, at_s) - 1)]]


def servegen_requests(workload: str, count: int, seed: int) -> list[Request]:
    """The first ``count`` requests of all clients. Raises WorkloadError."""
    options = options_of(ServeGenOptions, workload)
    clients = _clients(options.clients)
    starts = sorted(clients[0].windows)
    window_s = starts[1] - starts[0]
    start_s = _busiest(clients) if options.start_s is None else options.start_s
    requests: list[Request] = []
    for begin_s in starts:
        if begin_s + window_s <= start_s:
            continue
        requests += _window_requests(clients, begin_s, window_s, start_s, seed)
        if len(requests) >= count:
            return requests[:count]
    raise WorkloadError(
        f"{workload}: from {start_s} s on, {len(requests)} requests are recorded, not {count}"
    )


def _window_requests(
    clients: tuple[Client, ...], begin_s: int, window_s: int, start_s: int, seed: int
) -> list[Request]:
    """In the order of their arrival, which counts from ``start_s``."""
    requests = []
    for index, client in enumerate(clients):
        window = client.windows.get(begin_s)
        if window is None or window.rate == 0:
            continue
        entropy = np.random.SeedSequence([seed, index, begin_s])
        random = np.random.RandomState(np.random.MT19937(entropy))
        inputs, outputs = client.lengths_at(begin_s)
        for after_s in _arrivals_s(window, window_s, random):
            tokens = inputs.draw(random), outputs.draw(random)
            arrival_ns = round((begin_s - start_s + after_s) * 1e9)
            if arrival_ns >= 0:
                requests.append(Request(*tokens, arrival_ns=arrival_ns))
    return sorted(requests, key=lambda request: request.arrival_ns or 0)


def _arrivals_s(window: Window, window_s: int, random: np.random.RandomState) -> Iterator[float]:
    """From the window's start; a part of a request comes with that probability."""
    count = math.floor(window.rate * window_s + random.random_sample())
    if window.distribution == "Weibull":
        intervals = random.weibull(window.shape, count + 1)
    else:
        intervals = random.gamma(window.shape, size=count + 1)
    yield from (np.cumsum(intervals)[:-1] * (window_s / intervals.sum())).tolist()


def _busiest(clients: tuple[Client, ...]) -> int:
    rates: dict[int, float] = {}
    for client in clients:
        for begin_s, window in client.windows.items():
            rates[begin_s] = rates.get(begin_s, 0.0) + window.rate
    return max(rates, key=lambda begin_s: rates[begin_s])


@cache
def _clients(name: str) -> tuple[Client, ...]:
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
        lengths = {
            int(begin_s): (_lengths(tables["input_tokens"]), _lengths(tables["output_tokens"]))
            for begin_s, tables in json.loads(dataset).items()
            if tables["input_tokens"] != "{}" and tables["output_tokens"] != "{}"
        }
    except (ValueError, KeyError, IndexError, TypeError, SyntaxError) as error:
        raise WorkloadError(f"ServeGen's {name} can't be read: {error!r}") from None
    for begin_s, window in windows.items():
        is_known = window.distribution in ("Gamma", "Weibull") and window.shape > 0
        if not 0 <= window.rate < math.inf or (window.rate > 0 and not (is_known and lengths)):
            raise WorkloadError(
                f"ServeGen's {name}{_TRACE}, {begin_s} s: a rate, Gamma or Weibull and a shape are "
                f"needed, not {window}"
            )
    return Client(name, windows, dict(sorted(lengths.items())))


def _lengths(table: str) -> Lengths:
    probabilities = {int(tokens): float(p) for tokens, p in ast.literal_eval(table).items()}
    tokens = np.asarray([max(1, tokens) for tokens in probabilities])
    cumulative = np.cumsum(list(probabilities.values()))
    return Lengths(tokens, cumulative / cumulative[-1])

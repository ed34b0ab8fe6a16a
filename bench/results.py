"""From a client's own result file to one form for all."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from enum import Enum
from http import HTTPStatus
from itertools import pairwise
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from warpserve.bench.client.requests import NOT_SENT
from warpserve.bench.run_folder import RunError
from warpserve.bench.steps import StepLog, index_of

_OF_VLLM = ("start_times", "input_lens", "output_lens", "ttfts", "itls", "errors")
_OF_SGLANG = ("output_lens", "ttfts", "itls", "errors")
_OF_FAST = ("start_times", "end_times", "input_lens", "output_lens", "errors")


_REFUSALS = [re.escape(status.phrase) for status in HTTPStatus if 400 <= status < 500]
_REJECTED = re.compile(rf"HTTP 4\d\d\b|(?:{'|'.join(_REFUSALS)})$")
"""What our client says of a refused request, or ``vllm bench serve``."""
_NOTHING_MEASURED = "no token came that the client could have measured: it says a TTFT of zero"


class Outcome(Enum):
    """What became of a request."""

    COMPLETED = "completed"
    REJECTED = "rejected"
    FAILED = "failed"
    NOT_SENT = "not sent"


class RequestResult(BaseModel):
    """One request as its client saw it; times in seconds of virtual time."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    index: int
    start_s: float
    """When it was sent, by the session's CLOCK_MONOTONIC."""
    input_tokens: int
    output_tokens: int
    ttft_s: float | None
    """From sending to the first token; None where the request failed."""
    itl_s: tuple[float, ...]
    """From one token (or chunk of tokens) to the next."""
    error: str | None

    @property
    def outcome(self) -> Outcome:
        if self.error is None:
            return Outcome.COMPLETED
        if self.error.startswith(NOT_SENT):
            return Outcome.NOT_SENT
        return Outcome.REJECTED if _REJECTED.match(self.error) else Outcome.FAILED

    @property
    def latency_s(self) -> float | None:
        return None if self.ttft_s is None else self.ttft_s + sum(self.itl_s)

    @property
    def tpot_s(self) -> float | None:
        """Mean time of a token after the first; None where there is no second."""
        if self.ttft_s is None or self.output_tokens < 2:
            return None
        return sum(self.itl_s) / (self.output_tokens - 1)


def read_vllm_results(path: Path) -> list[RequestResult]:
    """From what ``vllm bench serve --save-detailed`` wrote. Raises RunError where it did not."""
    return [_request(index, *row) for index, row in enumerate(_rows(path, _OF_VLLM))]


def read_fast_results(path: Path, steps: Path) -> list[RequestResult]:
    """From what our own client wrote, with the times of tokens from the step log in ``steps``.

    Raises RunError where either is missing, or where they contradict each other.
    """
    rows = _rows(path, _OF_FAST)
    ends_ns = _token_ends_ns(steps, [input_tokens for _, _, input_tokens, _, _ in rows])
    return [
        _request_of_steps(index, ends_ns.get(index, []), *row) for index, row in enumerate(rows)
    ]


def read_sglang_results(path: Path, prompts: Path, steps: Path) -> list[RequestResult]:
    """From what ``sglang.bench_serving --output-details`` wrote, with ``prompts``, what it sent.

    It does not tell when: that is as long before the end of the step in ``steps`` with a request's
    first token as that took. A request without any counts as sent with the one before it that has
    one, and the first ones as sent with the one after them.

    An answer in which no token comes counts there as a success with all tokens that were asked for,
    and a TTFT of zero: here it has failed, as nothing was measured.
    """
    requests = [json.loads(line) for line in prompts.read_text().splitlines()]
    input_tokens = [int(request["input_tokens"]) for request in requests]
    rows = _rows(path, _OF_SGLANG)
    starts_s = _starts_s(_first_ends_ns(steps, input_tokens), [ttft_s for _, ttft_s, _, _ in rows])
    found: list[RequestResult] = []
    for index, (output_tokens, ttft_s, itl_s, error) in enumerate(rows):
        if not error and not ttft_s:
            output_tokens, error = 0, _NOTHING_MEASURED
        lengths = (starts_s[index], input_tokens[index], output_tokens)
        found.append(_request(index, *lengths, ttft_s, itl_s, error))
    return found


def _starts_s(first_ends_ns: Mapping[int, int], ttfts_s: Sequence[float]) -> list[float]:
    """Of each request, by the ends of the steps with the first tokens of some; 0 of none."""
    known_s = {
        index: first_ends_ns[index] / 1e9 - ttft_s
        for index, ttft_s in enumerate(ttfts_s)
        if index in first_ends_ns
    }
    start_s = next(iter(known_s.values()), 0.0)
    starts_s = []
    for index in range(len(ttfts_s)):
        start_s = known_s.get(index, start_s)
        starts_s.append(start_s)
    return starts_s


def _rows(path: Path, columns: Sequence[str]) -> list[tuple[Any, ...]]:
    if not path.exists():
        raise RunError("the client left no result file")
    document: dict[str, Any] = json.loads(path.read_text())
    return list(zip(*(document[name] for name in columns), strict=True))


def _request(
    index: int,
    start_s: float,
    input_tokens: int,
    output_tokens: int,
    ttft_s: float,
    itl_s: list[float],
    error: str,
) -> RequestResult:
    failed = bool(error)
    return RequestResult(
        index=index,
        start_s=start_s,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        ttft_s=None if failed else ttft_s,
        itl_s=() if failed else tuple(itl_s),
        error=error if failed else None,
    )


def _token_ends_ns(steps: Path, input_tokens: Sequence[int]) -> dict[int, list[int]]:
    """Of each request, when the steps ended that gave it a token."""
    ends_ns: dict[int, list[int]] = {}
    for of_worker in _ends_by_worker(steps, input_tokens):
        for index, its_ends_ns in of_worker.items():
            if ends_ns.setdefault(index, its_ends_ns) != its_ends_ns:
                raise RunError(
                    f"workers tell different times for request {index}: run it without --fast"
                )
    return ends_ns


def _first_ends_ns(steps: Path, input_tokens: Sequence[int]) -> dict[int, int]:
    """Of each request, when the step ended that gave it its first token: on the last stage."""
    found: dict[int, int] = {}
    for of_worker in _ends_by_worker(steps, input_tokens):
        for index, (first_ns, *_) in of_worker.items():
            found[index] = max(first_ns, found.get(index, 0))
    return found


def _ends_by_worker(steps: Path, input_tokens: Sequence[int]) -> list[dict[int, list[int]]]:
    def prompt_tokens(request_id: str) -> int:
        index = index_of(request_id)
        return 0 if index is None else input_tokens[index]

    log = StepLog(steps, prompt_tokens)
    found: list[dict[int, list[int]]] = []
    for worker_steps in log.read().values():
        of_worker: dict[int, list[int]] = {}
        for step in worker_steps:
            for index in map(index_of, step.request_ids):
                if index is not None:
                    of_worker.setdefault(index, []).append(step.end_ns)
        found.append(of_worker)
    log.close()
    return found


def _request_of_steps(
    index: int,
    ends_ns: list[int],
    start_s: float,
    end_s: float,
    input_tokens: int,
    output_tokens: int,
    error: str,
) -> RequestResult:
    ends_s = [end_ns / 1e9 for end_ns in ends_ns]
    if not error and (len(ends_s) != output_tokens or ends_s[-1] != end_s):
        last_s = ends_s[-1] if ends_s else None
        raise RunError(
            f"request {index} got {output_tokens} tokens until {end_s} s, but {len(ends_s)} until "
            f"{last_s} s by the step log: run it without --fast"
        )
    ttft_s = ends_s[0] - start_s if ends_s else 0.0
    itl_s = [after - before for before, after in pairwise(ends_s)]
    return _request(index, start_s, input_tokens, output_tokens, ttft_s, itl_s, error)


def write_requests(path: Path, requests: list[RequestResult]) -> None:
    path.write_text("".join(f"{request.model_dump_json()}\n" for request in requests))

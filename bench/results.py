"""From a client's own result file to one form for all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from warpserve.bench.run_folder import RunError

_COLUMNS = ("start_times", "input_lens", "output_lens", "ttfts", "itls", "errors")


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
    if not path.exists():
        raise RunError("the client left no result file")
    document: dict[str, Any] = json.loads(path.read_text())
    columns = [document[name] for name in _COLUMNS]
    return [_request(index, *row) for index, row in enumerate(zip(*columns, strict=True))]


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


def write_requests(path: Path, requests: list[RequestResult]) -> None:
    path.write_text("".join(f"{request.model_dump_json()}\n" for request in requests))

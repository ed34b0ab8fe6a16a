"""The requests of a run, as ``prompts.jsonl`` has them."""

from __future__ import annotations

import json
from array import array
from pathlib import Path
from typing import Any, NamedTuple

NOT_SENT = "not sent"
"""What the error of a request begins with that was not sent."""


class Request(NamedTuple):
    """A line of the file; workload/prompts.py says what is in it."""

    prompt: Any
    """Text, or a list of token ids."""
    input_tokens: int
    output_tokens: int
    arrival_s: float | None = None
    session: str | None = None
    think_s: float = 0.0
    output_token_ids: list[int] | None = None


class RequestFile:
    """Reads a line whenever it is asked for: prompts may be longer altogether than memory."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb")
        self._offsets = array("q")
        self._input_tokens = array("q")
        self.times: list[tuple[float | None, str | None, float]] = []
        """Arrival, session and think time of each."""
        offset = 0
        for line in self._file:
            self._offsets.append(offset)
            offset += len(line)
            request = Request(**json.loads(line))
            self._input_tokens.append(request.input_tokens)
            self.times.append((request.arrival_s, request.session, request.think_s))

    def __len__(self) -> int:
        return len(self._offsets)

    def __getitem__(self, index: int) -> Request:
        self._file.seek(self._offsets[index])
        return Request(**json.loads(self._file.readline()))

    def input_tokens(self, index: int) -> int:
        return self._input_tokens[index]

    def close(self) -> None:
        self._file.close()

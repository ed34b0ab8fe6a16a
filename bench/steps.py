"""The step log of an engine (patches/step_log.py), read while it grows or when it is complete.

Standard library only: it is read in the engine's Python, too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

REQUEST_PREFIX = "request-"
"""A request's id in the engine has this and its index in it."""

_INDEX = re.compile(rf"-{REQUEST_PREFIX}(\d+)-")


def index_of(request_id: str) -> int | None:
    """Of a request by its id in the engine; None for one that is no part of the workload."""
    found = _INDEX.search(request_id)
    return int(found[1]) if found else None


def sglang_id(index: int) -> str:
    """What a request to SGLang says as its id (``rid``), which it keeps as it is."""
    return f"bench-{REQUEST_PREFIX}{index}-0"


class TokenStep(NamedTuple):
    """A step that gave tokens."""

    end_ns: int
    """By the members' CLOCK_MONOTONIC."""
    request_ids: list[str]
    """Those that got one."""


class WorkerSteps:
    """The log of one worker."""

    def __init__(self, path: Path, prompt_tokens: Callable[[str], int]) -> None:
        """``prompt_tokens``: how long the prompt of a request is, by its id in the engine."""
        self._file = path.open("rb")
        self._incomplete = b""
        self._prompt_tokens = prompt_tokens
        self._known_tokens: dict[str, int] = {}

    def read(self) -> list[TokenStep]:
        """What has been written since the last call."""
        *lines, self._incomplete = (self._incomplete + self._file.read()).split(b"\n")
        steps = [self._token_step(json.loads(line)) for line in lines]
        return [step for step in steps if step.request_ids]

    def close(self) -> None:
        self._file.close()

    def _token_step(self, step: dict[str, Any]) -> TokenStep:
        """A step without ids is a rank's that has no requests and helps others with a dummy."""
        if not step["request_ids"]:
            return TokenStep(step["end_ns"], [])
        rows = zip(step["request_ids"], step["requests"], strict=True)
        given = [
            request_id
            for request_id, (new_tokens, cached_tokens, _) in rows
            if self._gets_token(request_id, cached_tokens + new_tokens)
        ]
        return TokenStep(step["end_ns"], given)

    def _gets_token(self, request_id: str, computed_tokens: int) -> bool:
        """Whether all known tokens are computed, also of a request that starts over."""
        known_tokens = self._known_tokens.get(request_id)
        if known_tokens is None:
            known_tokens = self._prompt_tokens(request_id)
        gets_one = computed_tokens >= known_tokens
        self._known_tokens[request_id] = known_tokens + gets_one
        return gets_one


class StepLog:
    """The logs of all workers in a folder."""

    def __init__(self, folder: Path, prompt_tokens: Callable[[str], int]) -> None:
        self._folder = folder
        self._prompt_tokens = prompt_tokens
        self._workers: dict[Path, WorkerSteps] = {}

    def read(self) -> dict[Path, list[TokenStep]]:
        """What has been written since the last call, by worker."""
        for path in sorted(self._folder.iterdir()):
            if path not in self._workers:
                self._workers[path] = WorkerSteps(path, self._prompt_tokens)
        return {path: worker.read() for path, worker in self._workers.items()}

    def close(self) -> None:
        for worker in self._workers.values():
            worker.close()

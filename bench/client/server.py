"""One server, asked over HTTP: what is sent, and what comes back."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import aiohttp

_REQUEST_LIMIT_S = 6 * 60 * 60
_READY_LIMIT_S = 3_600  # of virtual time
_READY_RETRY_S = 5
_MESSAGE_CHARACTERS = 500  # of what a server says of a refused request


@dataclass
class Answer:
    """Times in s of the session's CLOCK_MONOTONIC."""

    start_s: float
    end_s: float = 0.0
    input_tokens: int = 0
    output_tokens: int = 0
    token_times_s: list[float] = field(default_factory=list)
    """Of each token, or chunk of tokens; none without streaming."""
    token_ids: list[int] = field(default_factory=list)
    """Where they were asked for."""
    text: str = ""
    error: str = ""


class Server:
    """Sends to a server's ``/v1/completions``."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        url: str,
        model: str,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """``url``: ``http://HOST:PORT``."""
        self._session = session
        self._url = url
        self._model = model
        self._now_s = now_s

    async def wait_until_healthy(self) -> None:
        """Asks for its health, and nothing that the engine's caches would see."""

        async def problem() -> str:
            try:
                async with self._session.get(f"{self._url}/health") as response:
                    return "" if response.status == 200 else f"HTTP {response.status}"
            except aiohttp.ClientError as error:
                return str(error)

        await self._retry(problem)

    async def wait_until_answered(self, payload: dict[str, Any]) -> None:
        """Sends a request until it is answered."""

        async def problem() -> str:
            return (await self.ask(payload)).error

        await self._retry(problem)

    async def _retry(self, problem: Callable[[], Any]) -> None:
        give_up_s = self._now_s() + _READY_LIMIT_S
        while error := await problem():
            left_s = give_up_s - self._now_s()
            if left_s <= 0:
                raise SystemExit(f"the server does not answer: {error}")
            await asyncio.sleep(min(_READY_RETRY_S, left_s))

    def payload(self, prompt: Any, output_tokens: int) -> dict[str, Any]:
        """As ``vllm bench serve`` sends it (vllm/benchmarks/lib/endpoint_request_func.py)."""
        return {
            "model": self._model,
            "prompt": prompt,
            "repetition_penalty": 1.0,
            "max_tokens": output_tokens,
            "logprobs": None,
            "stream": False,
            "ignore_eos": True,
        }

    async def ask(self, payload: dict[str, Any], request_id: str | None = None) -> Answer:
        """An answer with an ``error`` where there is none."""
        answer = Answer(self._now_s())
        headers = {"x-request-id": request_id} if request_id else {}
        try:
            async with self._session.post(
                f"{self._url}/v1/completions", json=payload, headers=headers
            ) as response:
                if response.status != 200:
                    answer.error = await _refusal(response)
                elif payload["stream"]:
                    await self._stream(response, answer)
                else:
                    _add(answer, await response.json())
        except Exception:
            answer.error = traceback.format_exc()
        answer.end_s = self._now_s()
        return answer

    async def _stream(self, response: aiohttp.ClientResponse, answer: Answer) -> None:
        """Server-sent events: a JSON document after ``data: `` on each line."""
        async for line in response.content:
            data = line.strip().removeprefix(b"data: ")
            if not data or data.startswith(b":") or data == b"[DONE]":
                continue
            document = json.loads(data)
            if "error" in document:
                answer.error = str(document["error"])[:_MESSAGE_CHARACTERS]
                return
            if document["choices"]:
                answer.token_times_s.append(self._now_s())
            _add(answer, document)
        if not answer.token_times_s:
            answer.error = "no token came"


def open_session(max_concurrency: int | None) -> aiohttp.ClientSession:
    """With the settings of ``vllm bench serve``, but for proxies and .netrc, which aiohttp would
    look for at each request, in a thread.
    """
    connector = aiohttp.TCPConnector(
        limit=max_concurrency or 0,
        limit_per_host=max_concurrency or 0,
        ttl_dns_cache=300,
        keepalive_timeout=60,
        enable_cleanup_closed=True,  # its timer wakes up a loop, too
        ssl=False,
    )
    timeout = aiohttp.ClientTimeout(total=_REQUEST_LIMIT_S)
    return aiohttp.ClientSession(connector=connector, timeout=timeout, read_bufsize=_LINE_BYTES)


_LINE_BYTES = 2**22
"""No event is longer; aiohttp takes half of it for the longest line."""


async def _refusal(response: aiohttp.ClientResponse) -> str:
    """`HTTP STATUS REASON: ` and what the server says."""
    text = await response.text()
    with contextlib.suppress(ValueError, KeyError, TypeError):
        text = json.loads(text)["error"]["message"]
    return f"HTTP {response.status} {response.reason}: {text[:_MESSAGE_CHARACTERS]}"


def _add(answer: Answer, document: dict[str, Any]) -> None:
    for choice in document["choices"]:
        answer.text += choice["text"] or ""
        answer.token_ids += choice.get("token_ids") or ()
    if usage := document.get("usage"):
        answer.input_tokens = usage["prompt_tokens"]
        answer.output_tokens = usage["completion_tokens"]

"""The client itself, a script: ``client.py --help``.

What it sends, and when, is what ``vllm bench serve --backend vllm`` sends and when
(vllm/benchmarks/serve.py and lib/endpoint_request_func.py), but ``stream``.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp

# Last: what the engine's environment has goes before what lies beside warpserve.
sys.path.append(str(Path(__file__).parents[3]))

from warpserve.bench.fast.arrivals import arrivals_s
from warpserve.bench.fast.event_loop import StreamedLoop
from warpserve.bench.fast.kernel import Growth
from warpserve.bench.steps import REQUEST_PREFIX, StepLog, index_of

_READY_LIMIT_S = 3_600  # of virtual time
_READY_RETRY_S = 5
_REQUEST_LIMIT_S = 6 * 60 * 60


class Request(NamedTuple):
    """A line of the prompts' file."""

    prompt: str
    input_tokens: int
    output_tokens: int


@dataclass
class Answer:
    """Times in s of the session's CLOCK_MONOTONIC."""

    start_s: float
    end_s: float = 0.0
    input_tokens: int = 0
    output_tokens: int = 0
    text: str = ""
    error: str = ""


class Client:
    """Sends requests to one server."""

    def __init__(self, loop: StreamedLoop, session: aiohttp.ClientSession, url: str, model: str):
        self._loop = loop
        self._session = session
        self._url = url
        self._model = model

    async def wait_until_ready(self, request: Request) -> None:
        """Sends ``request`` until it is answered."""
        give_up_s = self._loop.time() + _READY_LIMIT_S
        while (answer := await self.send(request)).error:
            left_s = give_up_s - self._loop.time()
            if left_s <= 0:
                raise SystemExit(f"the server does not answer: {answer.error}")
            await asyncio.sleep(min(_READY_RETRY_S, left_s))

    async def send_all(
        self, requests: list[Request], delays_s: list[float], max_concurrency: int | None
    ) -> list[Answer]:
        """Each at its delay, unless ``max_concurrency`` are under way."""
        slots = asyncio.Semaphore(max_concurrency) if max_concurrency else contextlib.nullcontext()

        async def send(index: int, request: Request) -> Answer:
            async with slots:
                return await self.send(request, f"{REQUEST_PREFIX}{index}")

        start_s = self._loop.realtime()
        tasks = []
        for index, (request, delay_s) in enumerate(zip(requests, delays_s, strict=True)):
            left_s = start_s + delay_s - self._loop.realtime() if delay_s > 0 else 0.0
            if left_s > 0:
                await asyncio.sleep(left_s)
            tasks.append(asyncio.create_task(send(index, request)))
        return await asyncio.gather(*tasks)

    async def send(self, request: Request, request_id: str | None = None) -> Answer:
        """An answer with an ``error`` where there is none."""
        answer = Answer(self._loop.time())
        headers = {"x-request-id": request_id} if request_id else {}
        try:
            async with self._session.post(
                self._url, json=self._payload(request), headers=headers
            ) as response:
                if response.status == 200:
                    _fill(answer, await response.json())
                else:
                    answer.error = response.reason or f"HTTP status {response.status}"
        except Exception:
            answer.error = traceback.format_exc()
        answer.end_s = self._loop.time()
        return answer

    def _payload(self, request: Request) -> dict[str, Any]:
        return {
            "model": self._model,
            "prompt": request.prompt,
            "repetition_penalty": 1.0,
            "max_tokens": request.output_tokens,
            "logprobs": None,
            "stream": False,
            "ignore_eos": True,
        }


def _fill(answer: Answer, document: dict[str, Any]) -> None:
    answer.text = document["choices"][0]["text"]
    answer.input_tokens = document["usage"]["prompt_tokens"]
    answer.output_tokens = document["usage"]["completion_tokens"]


def _result(answers: list[Answer]) -> dict[str, list[Any]]:
    """Columns, named as in the result file of ``vllm bench serve``."""
    return {
        "start_times": [answer.start_s for answer in answers],
        "end_times": [answer.end_s for answer in answers],
        "input_lens": [answer.input_tokens for answer in answers],
        "output_lens": [answer.output_tokens for answer in answers],
        "errors": [answer.error for answer in answers],
        "generated_texts": [answer.text for answer in answers],
    }


async def _run(options: argparse.Namespace, loop: StreamedLoop, requests: list[Request]) -> None:
    limit = options.max_concurrency
    connector = aiohttp.TCPConnector(
        limit=limit or 0,
        limit_per_host=limit or 0,
        ttl_dns_cache=300,
        keepalive_timeout=60,
        enable_cleanup_closed=True,  # its timer wakes up a loop, too
        ssl=False,
    )
    timeout = aiohttp.ClientTimeout(total=_REQUEST_LIMIT_S)
    async with aiohttp.ClientSession(
        connector=connector, trust_env=True, timeout=timeout
    ) as session:
        client = Client(loop, session, options.url, options.model)
        await client.wait_until_ready(requests[0])
        delays_s = arrivals_s(len(requests), options.rate, options.seed)
        answers = await client.send_all(requests, delays_s, limit)
    options.out.write_text(json.dumps(_result(answers)))


def _read(path: Path) -> list[Request]:
    return [Request(**json.loads(line)) for line in path.read_text().splitlines()]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", required=True, help="http://HOST:PORT/v1/completions")
    parser.add_argument("--model", required=True, help="as the server knows it")
    parser.add_argument("--prompts", type=Path, required=True, help="JSON lines")
    parser.add_argument("--rate", type=float, required=True, help="requests a second, or inf")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--max-concurrency", type=int)
    parser.add_argument("--steps", type=Path, required=True, help="the folder of the step log")
    parser.add_argument("--out", type=Path, required=True, help="the result file")
    return parser.parse_args()


def main() -> None:
    options = _options()
    requests = _read(options.prompts)

    def prompt_tokens(request_id: str) -> int:
        index = index_of(request_id)
        return requests[
            index or 0
        ].input_tokens  # any other is the first, sent until it is answered

    log = StepLog(options.steps, prompt_tokens)

    def new_ends_ns() -> list[int]:
        return [step.end_ns for steps in log.read().values() for step in steps]

    with contextlib.closing(log), contextlib.closing(Growth(options.steps)) as growth:
        loop = StreamedLoop(growth, new_ends_ns)
        with contextlib.closing(loop):
            asyncio.set_event_loop(loop)
            loop.run_until_complete(_run(options, loop, requests))


if __name__ == "__main__":
    main()

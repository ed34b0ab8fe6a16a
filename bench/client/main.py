"""The client itself, a script: ``main.py --help``."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

# Last: what the engine's environment has goes before what lies beside warpserve.
sys.path.append(str(Path(__file__).parents[3]))

from warpserve.bench.client import stock_sender
from warpserve.bench.client.exact_loop import ExactLoop
from warpserve.bench.client.kernel import Growth
from warpserve.bench.client.requests import Request, RequestFile
from warpserve.bench.client.sender import Sender, timings
from warpserve.bench.client.server import Answer, Server, open_session
from warpserve.bench.client.streamed_loop import StreamedLoop
from warpserve.bench.steps import REQUEST_PREFIX, StepLog, index_of, sglang_id
from warpserve.patches.tokens import GIVEN_OUTPUT


class Conversations:
    """The token ids of sessions so far."""

    def __init__(self) -> None:
        self._token_ids: dict[str, list[int]] = {}

    def prompt(self, session: str, added: list[int]) -> list[int]:
        """The next turn's: the whole conversation."""
        token_ids = self._token_ids.setdefault(session, [])
        token_ids += added
        return list(token_ids)

    def add_answer(self, session: str, token_ids: list[int]) -> None:
        self._token_ids[session] += token_ids


class Client:
    """Sends the requests of a file by their index."""

    def __init__(
        self,
        requests: RequestFile,
        server: Server,
        engine: str,
        sampling: dict[str, float],
        *,
        streams: bool,
    ) -> None:
        """``engine``: vllm or sglang, whose own fields name requests and say their answers.
        ``sampling``: further fields of each.
        """
        self._requests = requests
        self._server = server
        self._is_sglang = engine == "sglang"
        self._sampling = sampling
        self._streams = streams
        self._conversations = Conversations()

    async def send(self, index: int) -> Answer:
        request = self._requests[index]
        payload = self.payload(request)
        if self._is_sglang:
            payload["rid"] = sglang_id(index)
        answer = await self._server.ask(payload, f"{REQUEST_PREFIX}{index}")
        if request.session is not None and not answer.error:
            self._continue(request.session, answer)
        return answer

    def _continue(self, session: str, answer: Answer) -> None:
        """A session whose answer has come; the answer fails where it can't be gone on with."""
        if len(answer.token_ids) != answer.output_tokens:
            told = f"{len(answer.token_ids)} of {answer.output_tokens}"
            answer.error = f"the server told {told} token ids of the answer: sessions need all"
        self._conversations.add_answer(session, answer.token_ids)

    def payload(self, request: Request) -> dict[str, Any]:
        prompt = request.prompt
        if request.session is not None:
            prompt = self._conversations.prompt(request.session, prompt)
        payload = self._server.payload(prompt, request.output_tokens) | self._sampling
        if self._streams:
            payload |= {"stream": True, "stream_options": {"include_usage": True}}
        if request.session is not None:
            payload["return_token_ids"] = True
        if request.output_token_ids is not None:
            given = {GIVEN_OUTPUT: ",".join(map(str, request.output_token_ids))}
            payload["custom_params" if self._is_sglang else "vllm_xargs"] = given
        return payload


def _result(answers: list[Answer]) -> dict[str, list[Any]]:
    """Columns, named as in the result file of ``vllm bench serve``."""
    columns: dict[str, list[Any]] = {
        "start_times": [answer.start_s for answer in answers],
        "end_times": [answer.end_s for answer in answers],
        "input_lens": [answer.input_tokens for answer in answers],
        "output_lens": [answer.output_tokens for answer in answers],
        "errors": [answer.error for answer in answers],
        "generated_texts": [answer.text for answer in answers],
    }
    if any(answer.token_times_s for answer in answers):
        columns["ttfts"] = [(a.token_times_s or [a.start_s])[0] - a.start_s for a in answers]
        columns["itls"] = [
            [after - before for before, after in pairwise(a.token_times_s)] for a in answers
        ]
    return columns


async def _run(options: argparse.Namespace, requests: RequestFile, *, streams: bool) -> None:
    async with open_session(options.max_concurrency) as session:
        server = Server(session, options.url, options.model)
        await server.wait_until_healthy()
        client = Client(requests, server, options.engine, options.sampling, streams=streams)
        sender = Sender(client.send, timings(requests.times), options.max_concurrency)
        answers = await sender.run()
    options.out.write_text(json.dumps(_result(answers)))


async def _run_as_stock(
    options: argparse.Namespace, requests: RequestFile, loop: StreamedLoop
) -> None:
    async with open_session(options.max_concurrency) as session:
        server = Server(session, options.url, options.model, loop.time)
        client = Client(requests, server, options.engine, options.sampling, streams=False)
        await server.wait_until_answered(client.payload(requests[0]))
        delays_s = [arrival_s for arrival_s, _, _ in requests.times if arrival_s is not None]
        limit = options.max_concurrency
        answers = await stock_sender.send_all(client.send, delays_s, limit, loop)
    options.out.write_text(json.dumps(_result(answers)))


@contextlib.contextmanager
def _streamed_loop(steps: Path, requests: RequestFile) -> Iterator[StreamedLoop]:
    def prompt_tokens(request_id: str) -> int:
        index = index_of(request_id)  # any other is the first, sent until it is answered
        return requests.input_tokens(index or 0)

    log = StepLog(steps, prompt_tokens)

    def new_ends_ns() -> list[int]:
        return [step.end_ns for found in log.read().values() for step in found]

    with contextlib.closing(log), contextlib.closing(Growth(steps)) as growth:
        loop = StreamedLoop(growth, new_ends_ns)
        with contextlib.closing(loop):
            yield loop


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", required=True, help="http://HOST:PORT")
    parser.add_argument("--model", required=True, help="as the server knows it")
    parser.add_argument("--engine", choices=("vllm", "sglang"), default="vllm")
    parser.add_argument("--requests", type=Path, required=True, help="a run's prompts.jsonl")
    parser.add_argument(
        "--sampling", type=json.loads, default={}, help="fields of all requests, as JSON"
    )
    parser.add_argument("--max-concurrency", type=int)
    parser.add_argument(
        "--steps", type=Path, help="the folder of the step log: ask without streaming"
    )
    parser.add_argument(
        "--as-stock", action="store_true", help="send when vllm bench serve would (with --steps)"
    )
    parser.add_argument("--out", type=Path, required=True, help="the result file")
    return parser.parse_args()


def main() -> None:
    options = _options()
    with contextlib.closing(RequestFile(options.requests)) as requests:
        if options.as_stock:
            with _streamed_loop(options.steps, requests) as loop:
                asyncio.set_event_loop(loop)
                loop.run_until_complete(_run_as_stock(options, requests, loop))
            return
        with contextlib.closing(ExactLoop()) as exact_loop:
            asyncio.set_event_loop(exact_loop)
            streams = options.steps is None
            exact_loop.run_until_complete(_run(options, requests, streams=streams))


if __name__ == "__main__":
    main()

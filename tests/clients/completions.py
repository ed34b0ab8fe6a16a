"""Our client against a server that answers each token 10 ms after the one before.

Arguments: a model's name ("silent" tells no token ids), a run's prompts.jsonl, the client's result
file, further options of the client. Prints what the server was asked, in that order, as JSON.
Prompts of more than 1,000 tokens are refused.
"""

import asyncio
import json
import sys
import time
from pathlib import Path

from aiohttp import web

import warpserve
from warpserve.bench.client.exact_loop import ExactLoop

TOKEN_S = 0.01
CLIENT = Path(warpserve.__file__).parent / "bench" / "client" / "main.py"

asked = []


async def health(_: web.Request) -> web.Response:
    return web.Response()


async def completions(request: web.Request) -> web.StreamResponse:
    payload = await request.json()
    asked.append({"at_ns": time.monotonic_ns(), "id": request.headers["x-request-id"]} | payload)
    prompt = payload["prompt"]
    if len(prompt) > 1_000:
        return web.json_response({"error": {"message": "too long"}}, status=400)
    response = web.StreamResponse()
    await response.prepare(request)
    first_s = asyncio.get_running_loop().time()
    for number in range(1, payload["max_tokens"] + 1):
        await asyncio.sleep(first_s + number * TOKEN_S - asyncio.get_running_loop().time())
        choice = {"text": f" {number}"}
        if payload["model"] != "silent":
            choice["token_ids"] = [10_000 + number]
        await response.write(b"data: %s\n\n" % json.dumps({"choices": [choice]}).encode())
    usage = {"prompt_tokens": len(prompt), "completion_tokens": payload["max_tokens"]}
    await response.write(b"data: %s\n\n" % json.dumps({"choices": [], "usage": usage}).encode())
    await response.write(b"data: [DONE]\n\n")
    return response


async def main(model: str, requests: str, out: str, *options: str) -> None:
    app = web.Application()
    app.add_routes([web.get("/health", health), web.post("/v1/completions", completions)])
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    client = await asyncio.create_subprocess_exec(
        sys.executable, CLIENT,
        "--url", f"http://{host}:{port}", "--model", model, "--requests", requests, "--out", out,
        *options,
    )  # fmt: skip
    assert await client.wait() == 0
    await runner.cleanup()
    print(json.dumps(asked))


with asyncio.Runner(loop_factory=ExactLoop) as loop_runner:
    loop_runner.run(main(*sys.argv[1:]))

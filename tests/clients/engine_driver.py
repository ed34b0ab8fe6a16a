"""Starts an engine's server, sends it bursts of requests, prints what came back, stops it.

``engine_driver.py BURSTS.json LOG SERVER COMMAND...``, with ``--port`` added. BURSTS: a list of
lists of requests {"path": ..., "body": ..., "delay_s": 0}; those of a burst go out together, but
for their delays, and the next burst when all are answered. A body with "stream" is read as it
comes. Prints, as JSON, of each request its status, and the text or, of a stream, the time of each
piece in ms since it was sent and its token ids; and the text of /metrics at the end.

Runs in the engine's environment, as its clients do.
"""

import asyncio
import json
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import aiohttp


def free_port():
    """SGLang 0.5.14 wants 10,000 more to be a port, too."""
    while True:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        if port <= 55_535:
            return port


async def await_ready(http, url, server):
    while server.poll() is None:
        try:
            async with http.get(url + "/health") as answer:
                if answer.status == 200:
                    return
        except aiohttp.ClientError:
            pass
        await asyncio.sleep(1)
    sys.exit(f"the server ended with exit code {server.returncode}")


async def ask(http, url, request):
    await asyncio.sleep(request.get("delay_s", 0))
    began_s = time.perf_counter()
    body = request.get("body")
    async with http.post(url + request["path"], json=body) as answer:
        if answer.status != 200 or not (body or {}).get("stream"):
            return {"status": answer.status, "text": await answer.text()}
        times_ms, token_ids = [], []
        async for line in answer.content:
            data = line.strip().removeprefix(b"data:").strip()
            if not data or data == b"[DONE]":
                continue
            times_ms.append(round((time.perf_counter() - began_s) * 1e3, 6))
            (piece,) = json.loads(data).get("choices", [{}])  # /generate has none
            token_ids.append(piece.get("token_ids"))
        return {"status": 200, "times_ms": times_ms, "token_ids": token_ids}


async def drive(url, server, bursts):
    no_limit = aiohttp.ClientTimeout(total=None)
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(timeout=no_limit, connector=connector) as http:
        await await_ready(http, url, server)
        answers = [
            await asyncio.gather(*(ask(http, url, request) for request in burst))
            for burst in bursts
        ]
        async with http.get(url + "/metrics") as answer:
            return {"answers": answers, "metrics": await answer.text()}


def main():
    bursts, log, *command = sys.argv[1:]
    port = free_port()
    with Path(log).open("w") as output:
        server = subprocess.Popen(
            [*command, "--port", str(port)], stdout=output, stderr=subprocess.STDOUT
        )
        url = f"http://127.0.0.1:{port}"
        try:
            found = asyncio.run(drive(url, server, json.loads(Path(bursts).read_text())))
            print(json.dumps(found))
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait()


if __name__ == "__main__":
    main()

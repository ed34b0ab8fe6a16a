"""Sends requests over HTTP with aiohttp and prints when each of their chunks arrived, as JSON.

Starts the server (http_server.py) itself and ends it. Arguments: the event loop (asyncio or
uvloop), the number of requests.
"""

import asyncio
import json
import random
import subprocess
import sys
import time
from pathlib import Path

import aiohttp

MEAN_GAP_S = 0.05
SLOW_READER_EVERY = 7  # such a request is read with pauses


async def request(session, url, number, chunks, service_s):
    record = {"number": number, "sent_ns": time.monotonic_ns(), "chunks": []}
    parameters = {"chunks": chunks, "service_s": service_s}
    async with session.get(url, params=parameters) as response:
        record["headers_ns"] = time.monotonic_ns()
        async for line in response.content:
            record["chunks"].append([time.monotonic_ns(), json.loads(line)])
            if number % SLOW_READER_EVERY == 0:
                await asyncio.sleep(0.03)
    record["ended_ns"] = time.monotonic_ns()
    return record


async def send_all(url, count):
    rng = random.Random(20)
    timeout = aiohttp.ClientTimeout(total=600)
    connector = aiohttp.TCPConnector(limit=8)
    async with aiohttp.ClientSession(timeout=timeout, connector=connector) as session:
        tasks = []
        for number in range(count):
            await asyncio.sleep(rng.expovariate(1 / MEAN_GAP_S))
            chunks, service_s = rng.choice([1, 1, 5, 40]), rng.uniform(0.001, 0.02)
            task = request(session, url, number, chunks, service_s)
            tasks.append(asyncio.create_task(task))
        return await asyncio.gather(*tasks)


def main():
    loop, count = sys.argv[1], int(sys.argv[2])
    server_program = Path(__file__).with_name("http_server.py")
    server = subprocess.Popen([sys.executable, server_program, loop], stdout=subprocess.PIPE)
    port = int(server.stdout.readline())
    if loop == "uvloop":
        import uvloop

        uvloop.install()
    try:
        records = asyncio.run(send_all(f"http://127.0.0.1:{port}/", count))
    finally:
        server.terminate()
        server.wait()
    print(json.dumps(records))


if __name__ == "__main__":
    main()

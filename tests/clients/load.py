"""Sends what a plan says to a server's completions, and asks it for its metrics afterwards.

``load.py URL PLAN RESULT``: PLAN is a JSON file with ``requests`` (each ``at_s`` and ``body``) and
``max_concurrency``. RESULT gets the ``metrics`` and, of each request, when it was sent, how long it
took, the ``status`` (0: the connection was lost) and the ``answer``.
"""

import asyncio
import json
import sys
import time
from pathlib import Path

import aiohttp

url, plan, result = sys.argv[1], json.loads(Path(sys.argv[2]).read_text()), Path(sys.argv[3])


async def send(session, slots, start_s, at_s, body):
    await asyncio.sleep(start_s + at_s - time.perf_counter())
    async with slots:
        sent_s = time.perf_counter()
        try:
            async with session.post(f"{url}/v1/completions", json=body) as response:
                status, answer = response.status, await response.json()
        except aiohttp.ClientError as error:
            status, answer = 0, repr(error)
        took_s = time.perf_counter() - sent_s
    return {"sent_s": sent_s - start_s, "took_s": took_s, "status": status, "answer": answer}


async def metrics(session):
    try:
        async with session.get(f"{url}/metrics") as response:
            return await response.text()
    except aiohttp.ClientError:
        return ""


async def main():
    slots = asyncio.Semaphore(plan["max_concurrency"])
    no_limits = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(
        connector=no_limits, timeout=aiohttp.ClientTimeout()
    ) as session:
        start_s = time.perf_counter() + 1
        answers = await asyncio.gather(
            *(send(session, slots, start_s, r["at_s"], r["body"]) for r in plan["requests"])
        )
        result.write_text(json.dumps({"answers": answers, "metrics": await metrics(session)}))


asyncio.run(main())

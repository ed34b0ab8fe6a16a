"""Sends requests at the instants at which ``vllm bench serve`` sends them.

From vllm/benchmarks/serve.py, get_request and limited_request_func.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence

from warpserve.bench.client.sender import Send
from warpserve.bench.client.server import Answer
from warpserve.bench.client.streamed_loop import StreamedLoop


async def send_all(
    send: Send, delays_s: Sequence[float], max_concurrency: int | None, loop: StreamedLoop
) -> list[Answer]:
    """Each at its delay, unless ``max_concurrency`` are under way."""
    slots = asyncio.Semaphore(max_concurrency) if max_concurrency else contextlib.nullcontext()

    async def send_in_slot(index: int) -> Answer:
        async with slots:
            return await send(index)

    start_s = loop.realtime()
    tasks = []
    for index, delay_s in enumerate(delays_s):
        left_s = start_s + delay_s - loop.realtime() if delay_s > 0 else 0.0
        if left_s > 0:
            await asyncio.sleep(left_s)
        tasks.append(asyncio.create_task(send_in_slot(index)))
    return await asyncio.gather(*tasks)

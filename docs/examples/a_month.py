"""A month of requests: an asyncio server that answers after one second, a client that asks once a
minute for 30 days. Nothing here knows of warpserve.

    warpserve run -- python docs/examples/a_month.py
"""

import asyncio
import datetime
import time

DAYS = 30
REQUESTS = DAYS * 24 * 60


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while await reader.readline():
        await asyncio.sleep(1)
        writer.write(b"done\n")
        await writer.drain()
    writer.close()


async def main() -> None:
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    latencies = []
    for _ in range(REQUESTS):
        asked = time.perf_counter()
        writer.write(b"request\n")
        await reader.readline()
        latencies.append(time.perf_counter() - asked)
        await asyncio.sleep(60 - latencies[-1])
    print(f"{len(latencies):,} requests, the last on {datetime.datetime.now():%A %d %B, %H:%M}")
    print(f"latency: {min(latencies):.6f} s at least, {max(latencies):.6f} s at most")
    writer.close()
    await asyncio.sleep(1)  # the server sees the end
    server.close()


asyncio.run(main())

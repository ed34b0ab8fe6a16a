"""An ASGI server under uvicorn: answers after a service time, or streams chunks, and stamps them.

Arguments: the event loop (asyncio or uvloop). Prints the port that it listens on.
"""

import asyncio
import json
import socket
import sys
import time
from urllib.parse import parse_qs

import uvicorn

WORKERS = 2  # requests served at once; the others queue


class App:
    def __init__(self):
        self.free = asyncio.Semaphore(WORKERS)

    async def __call__(self, scope, _receive, send):
        if scope["type"] != "http":
            return
        query = {
            key: float(value[0]) for key, value in parse_qs(scope["query_string"].decode()).items()
        }
        arrived_ns = time.monotonic_ns()
        async with self.free:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            for chunk in range(int(query["chunks"])):
                await asyncio.sleep(query["service_s"])
                stamp = [chunk, arrived_ns, time.monotonic_ns(), time.time_ns()]
                body = json.dumps(stamp).encode() + b"\n"
                await send({"type": "http.response.body", "body": body, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def main():
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    config = uvicorn.Config(App(), loop=sys.argv[1], lifespan="off", log_level="warning")
    uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main()

"""Timers of a loop that steps wake up, and of one that only reads the log of these steps.

Argument: whether a step is logged at its "begin" or at its "end". Prints both lists of instants at
which the timers fired, as JSON.
"""

import asyncio
import contextlib
import json
import random
import socket
import sys
import tempfile
import threading
import time
from pathlib import Path

from warpserve.bench.client.kernel import Growth, wait_until
from warpserve.bench.client.streamed_loop import StreamedLoop
from warpserve.bench.steps import StepLog

STEPS, TIMERS, PROMPT_TOKENS = 400, 300, 7


async def fire(delays_s: list[float]) -> list[float]:
    fired = []
    for delay_s in delays_s:
        await asyncio.sleep(delay_s)
        fired.append(asyncio.get_running_loop().time())
    return fired


def run_steps(log: Path, logged_at: str, woken: socket.socket) -> None:
    draw = random.Random(1)
    end_ns = time.monotonic_ns()
    with log.open("w", buffering=1) as file:
        for number in range(STEPS):
            end_ns += draw.randrange(200_000, 15_000_000)
            if logged_at == "end":
                wait_until(end_ns)
            gives_token = number % 5 != 0
            row = [1, number, False] if gives_token else [PROMPT_TOKENS - 1, 0, True]
            names = ["a"] if gives_token else [f"b{number}"]
            step = {"end_ns": end_ns, "request_ids": names, "requests": [row]}
            file.write(json.dumps(step) + "\n")
            wait_until(end_ns)
            if gives_token:
                woken.send(b"x")


def main() -> None:
    draw = random.Random(2)
    delays_s = [draw.uniform(0.0001, 0.012) for _ in range(TIMERS)]
    waking, woken = socket.socketpair()
    with tempfile.TemporaryDirectory() as name, contextlib.closing(Growth(Path(name))) as growth:
        streamed = asyncio.new_event_loop()
        streamed.add_reader(waking, waking.recv, 1)
        log = StepLog(Path(name), lambda request_id: 1 if request_id == "a" else PROMPT_TOKENS)

        def new_ends_ns() -> list[int]:
            return [step.end_ns for steps in log.read().values() for step in steps]

        quiet = StreamedLoop(growth, new_ends_ns)
        log_file = Path(name) / "steps-1.jsonl"
        steps = threading.Thread(target=run_steps, args=(log_file, sys.argv[1], woken))
        fired = {}
        loops = [
            threading.Thread(
                target=lambda loop=loop: fired.update(
                    {loop: loop.run_until_complete(fire(delays_s))}
                )
            )
            for loop in (streamed, quiet)
        ]
        for thread in (*loops, steps):
            thread.start()
        for thread in (*loops, steps):
            thread.join()
        log.close()
        print(json.dumps([fired[streamed], fired[quiet]]))


main()

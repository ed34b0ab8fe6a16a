"""Sends over a link of 1 GB/s, `link.py AT:GB…`: prints when each has arrived, in virtual ns."""

import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from warpserve.patches.network import Link

link = Link(1e9)
arrived: dict[int, int] = {}
began_ns = time.monotonic_ns()


def send(number: int, at_s: float, gigabytes: float) -> None:
    time.sleep(at_s)
    link.send(round(gigabytes * 1e9))
    arrived[number] = time.monotonic_ns() - began_ns


threads = [
    threading.Thread(target=send, args=(number, *map(float, told.split(":"))))
    for number, told in enumerate(sys.argv[1:])
]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(*(arrived[number] for number in range(len(threads))))

"""exact_sleeps.py asyncio|uvloop: sleeps one after the other, then beside each other.

Prints, as JSON, how long each of the first took, in ns, and in which order the others ended.
"""

import asyncio
import json
import sys
import time

import uvloop

from warpserve.patches.exact_sleep import sleep_ns

ONE_BY_ONE_NS = [0, 1, 1_234, 999_999, 5_000_001, 2_000_000_000]
TOGETHER_NS = [3_000, 1_000, 2_000, 1_000, 0]


async def main():
    took_ns = []
    for duration_ns in ONE_BY_ONE_NS:
        start_ns = time.monotonic_ns()
        await sleep_ns(duration_ns)
        took_ns.append(time.monotonic_ns() - start_ns)
    ended = []

    async def sleep_beside(number):
        await sleep_ns(TOGETHER_NS[number])
        ended.append(number)

    await asyncio.gather(*map(sleep_beside, range(len(TOGETHER_NS))))
    given_up = asyncio.create_task(sleep_ns(10**12))
    await asyncio.sleep(0)
    given_up.cancel()
    await asyncio.wait([given_up])
    print(json.dumps({"took_ns": took_ns, "ended": ended}))


run = {"asyncio": asyncio.run, "uvloop": uvloop.run}[sys.argv[1]]
run(main())

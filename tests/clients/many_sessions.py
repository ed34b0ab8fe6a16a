"""Starts and ends sessions, a few at a time, and prints what this process is left with, as JSON.

Arguments: how many sessions, how many at a time.
"""

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from warpserve.timekeeper.launcher import RunningSession


def one_session(number: int) -> int:
    with RunningSession() as session:
        return session.wait(session.spawn(["/bin/sleep", str(number)]))


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def main() -> None:
    count, at_a_time = int(sys.argv[1]), int(sys.argv[2])
    one_session(0)  # what is imported and opened once
    before = descriptors()
    with ThreadPoolExecutor(at_a_time) as pool:
        codes = list(pool.map(one_session, range(count)))
    print(json.dumps({"codes": codes, "leaked_descriptors": descriptors() - before}))


if __name__ == "__main__":
    main()

"""A member of the session that reads an engine's Prometheus metrics at regular virtual times.

Run as a script, by any Python: `scrape.py URL FILE INTERVAL_NS [LEFT_OUT…]`: at the multiples of
the interval on the session's CLOCK_MONOTONIC. Writes JSON lines of ``time_ns`` and ``metrics``, the
value of each by name and labels, without those whose names begin as one that is left out. Ends with
the session.
"""

from __future__ import annotations

import ctypes
import http.client
import json
import re
import sys
import time
import urllib.error
import urllib.request
from typing import TextIO

_OF_HOST = ("#", "process_", "python_", "sglang:process_", "sglang:scheduler_process_")
_PID = re.compile(r'(?<=[{,])pid="\d+",|,pid="\d+"(?=})')


def main(url: str, path: str, interval_ns: int, left_out: tuple[str, ...]) -> None:
    with open(path, "w", buffering=1) as file:  # noqa: PTH123
        while True:
            due_ns = (time.monotonic_ns() // interval_ns + 1) * interval_ns
            while (left_ns := due_ns - time.monotonic_ns()) > 0:
                time.sleep(left_ns / 1e9)
            # The engine may be about to count at the same instant.
            ctypes.CDLL(None).ws_settle()
            _sample(url, file, left_out)


def _sample(url: str, file: TextIO, left_out: tuple[str, ...]) -> None:
    """Nothing where the server does not answer, as before it is ready."""
    time_ns = time.monotonic_ns()
    try:
        with urllib.request.urlopen(url) as answer:
            text = answer.read().decode()
    except (urllib.error.URLError, http.client.HTTPException, ConnectionError):
        return
    sample = {"time_ns": time_ns, "metrics": _parsed(text, left_out)}
    file.write(json.dumps(sample, separators=(",", ":")) + "\n")


def _parsed(text: str, left_out: tuple[str, ...]) -> dict[str, float]:
    """From the text exposition format, without buckets of histograms and creation times.

    And without what it tells of the server's processes, their ids too: that is the host's.
    """
    metrics = {}
    for line in text.splitlines():
        name, _, value = line.rpartition(" ")
        if not name or line.startswith((*_OF_HOST, *left_out)):
            continue
        if "_bucket{" not in name and "_created" not in name:
            metrics[_PID.sub("", name)] = float(value)
    return metrics


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), tuple(sys.argv[4:]))

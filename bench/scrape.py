"""A member of the session that reads an engine's Prometheus metrics at regular virtual times.

Run as a script, by any Python: `scrape.py URL FILE INTERVAL_S`. Writes JSON lines of ``time_ns``
(the session's CLOCK_MONOTONIC) and ``metrics``, the value of each by name and labels. Ends with
the session.
"""

from __future__ import annotations

import ctypes
import json
import sys
import time
import urllib.error
import urllib.request
from typing import TextIO


def main(url: str, path: str, interval_s: float) -> None:
    with open(path, "w", buffering=1) as file:  # noqa: PTH123
        due_s = time.monotonic()
        while True:
            # The engine may be about to count at the same instant.
            ctypes.CDLL(None).ws_settle()
            _sample(url, file)
            due_s += interval_s
            time.sleep(max(0.0, due_s - time.monotonic()))


def _sample(url: str, file: TextIO) -> None:
    """Nothing where the server does not answer, as before it is ready."""
    time_ns = time.monotonic_ns()
    try:
        with urllib.request.urlopen(url) as answer:
            text = answer.read().decode()
    except (urllib.error.URLError, ConnectionError):
        return
    sample = {"time_ns": time_ns, "metrics": _parsed(text)}
    file.write(json.dumps(sample, separators=(",", ":")) + "\n")


def _parsed(text: str) -> dict[str, float]:
    """From the text exposition format, without buckets of histograms and creation times.

    And without what the client library tells of the server's process: that is the host's.
    """
    metrics = {}
    for line in text.splitlines():
        name, _, value = line.rpartition(" ")
        if not name or line.startswith(("#", "process_", "python_")):
            continue
        if "_bucket{" not in name and "_created" not in name:
            metrics[name] = float(value)
    return metrics


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]))

"""The engine's Prometheus metrics over virtual time: who reads them, and until when.

Time goes on after the last answer, for as long as the host takes to notice it. So that two runs end
with the same reading, there is always one after the last answer, and what comes later is dropped.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from warpserve.bench.config import RunConfig
from warpserve.bench.engine import EngineLaunch
from warpserve.bench.results import RequestResult
from warpserve.bench.run_folder import RunFolder
from warpserve.json_lines import complete_lines
from warpserve.patches.vllm import held_outputs

_SCRAPER = Path(__file__).with_name("scrape.py")
_LAST_LIMIT_S = 10.0  # of host time, for the reading after the last answer
_LOOK_S = 0.02


def scraper_command(config: RunConfig, launch: EngineLaunch, folder: RunFolder) -> list[str]:
    """The member of the session that reads them."""
    return [
        sys.executable,
        str(_SCRAPER),
        f"{launch.url}/metrics",
        str(folder.metrics),
        str(config.metrics_interval_ns),
        *(held_outputs.DISTORTED if config.fast else ()),
    ]


def wait_for_last_reading(folder: RunFolder) -> None:
    """Returns when a reading has been written that was begun after this call, or without it after
    some seconds: an engine that has no metrics writes none.
    """
    wanted = _readings(folder) + 2  # one may be on its way
    give_up_s = time.monotonic() + _LAST_LIMIT_S
    while _readings(folder) < wanted and time.monotonic() < give_up_s:
        time.sleep(_LOOK_S)


def drop_later_readings(folder: RunFolder, requests: Sequence[RequestResult]) -> None:
    """Keeps those up to the first one after the last answer."""
    ends_s = [one.start_s + one.latency_s for one in requests if one.latency_s is not None]
    if not ends_s or not folder.metrics.exists():
        return
    last_end_ns = max(ends_s) * 1e9
    kept = []
    for line in complete_lines(folder.metrics.read_text()):
        kept.append(f"{line}\n")
        if json.loads(line)["time_ns"] > last_end_ns:
            break
    folder.metrics.write_text("".join(kept))


def _readings(folder: RunFolder) -> int:
    return folder.metrics.read_bytes().count(b"\n") if folder.metrics.exists() else 0

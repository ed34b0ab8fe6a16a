"""Engines' HTTP servers that nobody asks for anything."""

from __future__ import annotations

import json
import signal
import sys

from tests.harness import CLIENTS, Warpserve, free_port


def test_an_idle_hour_is_a_look_a_second_and_dates_stay_right(warpserve: Warpserve) -> None:
    done = warpserve.run([sys.executable, CLIENTS / "idle_http_server.py", str(free_port())])
    assert done.exit_code == 128 + signal.SIGTERM, done.stderr
    told = json.loads(done.stdout)
    assert 0 <= told["now_s"] - told["date_s"] < 2
    assert 3_600 <= done.session.advances < 3_700

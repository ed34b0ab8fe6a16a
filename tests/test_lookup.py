"""Looking up a name at a server outside of the session: its answer takes no virtual time."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness import CLIENTS, Warpserve

OWN_NAMESPACES = ["unshare", "--mount", "--net"]
LOOK_UP = """
import json, socket, sys, threading, time
threading.Thread(target=time.sleep, args=(3600,), daemon=True).start()
began_ns = time.monotonic_ns()
address = eval(sys.argv[1])
print(json.dumps([address, time.monotonic_ns() - began_ns]))
time.sleep(1)
"""


@pytest.fixture
def slow_server() -> list[str | Path]:
    """A prefix: the command runs where names have addresses, but half a second late."""
    made = subprocess.run([*OWN_NAMESPACES, "true"], capture_output=True, text=True)
    if made.returncode != 0:
        pytest.skip(f"this machine makes no namespaces: {made.stderr.strip()}")
    return [*OWN_NAMESPACES, sys.executable, CLIENTS / "slow_resolver.py", "0.5"]


@pytest.mark.parametrize(
    ("lookup", "found"),
    [
        ("socket.gethostbyname('a.example')", "10.1.2.3"),
        ("socket.getaddrinfo('a.example', 80, socket.AF_INET)[0][4]", ["10.1.2.3", 80]),
        ("socket.getnameinfo(('10.9.9.9', 80), socket.NI_NUMERICSERV)", ["10.9.9.9", "80"]),
    ],
)
def test_time_stands_still_until_the_name_server_has_answered(
    warpserve: Warpserve, slow_server: list[str | Path], lookup: str, found: object
) -> None:
    # The grace shows that to wait for the answer is no stall.
    outcome = warpserve.run(
        [sys.executable, "-c", LOOK_UP, lookup],
        options=["--audit", "--stall-grace-ms=100"],
        prefix=slow_server,
    )
    assert outcome.exit_code == 0, outcome.stderr
    assert json.loads(outcome.stdout) == [found, 0]
    assert outcome.session.host_ns > 500_000_000
    assert outcome.session.virtual_ns == 1_000_000_000
    assert outcome.session.audit.violations == 0

"""Programs that end without taking apart what they have imported."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import atexit
from types import ModuleType
from warpserve.patches.endings import end_at_once

class Thing:
    def __del__(self):
        print("taken apart", flush=True)

atexit.register(print, "registered before")
end_at_once(ModuleType("engine"))
atexit.register(print, "and after")
thing = Thing()
print("unfinished", end=" line\\n")
raise SystemExit(3)
"""


def test_all_is_done_but_nothing_taken_apart() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (3, "")
    assert done.stdout.splitlines() == ["unfinished line", "and after", "registered before"]

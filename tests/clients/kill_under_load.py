"""Kills one of a session's processes while a client waits for answers.

``kill_under_load.py URL VICTIM COMMAND…``: starts COMMAND, a client; once the server runs requests
of it, kills VICTIM: the ``client``, or the engine's worker that logs its steps to that folder.
Prints how many requests the server runs six seconds later, null where it answers no more: SGLang
looks every four whether a client is still there. And that instant, of the clock that steps have.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

RUNNING = re.compile(
    r"^(?:vllm:num_requests_running|sglang:num_running_reqs)\{.*\} (\S+)$", re.MULTILINE
)

url, victim, *command = sys.argv[1:]


def running():
    try:
        metrics = urllib.request.urlopen(f"{url}/metrics").read().decode()
    except OSError:
        return None
    return float(RUNNING.search(metrics)[1])


def worker(step_log):
    (log,) = step_log.glob("steps-*.jsonl")
    (descriptor,) = (fd for fd in Path("/proc").glob("[0-9]*/fd/*") if points_to(fd, log))
    return int(descriptor.parts[2])


def points_to(descriptor, file):
    try:
        return descriptor.readlink() == file
    except OSError:  # closed meanwhile
        return False


client = subprocess.Popen(command)
while not running():
    time.sleep(0.05)
os.kill(client.pid if victim == "client" else worker(Path(victim)), signal.SIGKILL)
client.wait()
time.sleep(6)
now_ns = time.monotonic_ns()
print(json.dumps({"client": client.returncode, "running": running(), "now_ns": now_ns}))

"""A server and its clients, one after the other, as a script of a user's would start them.

``served.py PLAN``: PLAN is a JSON file with ``server`` (a command), ``ready`` (a URL that answers
when it serves), ``clients`` (commands by name) and ``logs`` (a folder for what each prints). Prints
the exit codes by name, with that of the ``server``, which is its own where that never served.
"""

import json
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

plan = json.loads(Path(sys.argv[1]).read_text())


def log(name):
    return (Path(plan["logs"]) / f"{name}.log").open("wb")


def is_ready():
    try:
        return urllib.request.urlopen(plan["ready"]).status == 200
    except OSError:
        return False


server = subprocess.Popen(plan["server"], stdout=log("server"), stderr=subprocess.STDOUT)
while not is_ready():
    if server.poll() is not None:
        sys.exit(server.returncode)
    time.sleep(1)
exit_codes = {}
for name, command in plan["clients"].items():
    exit_codes[name] = subprocess.call(command, stdout=log(name), stderr=subprocess.STDOUT)
    time.sleep(1)
server.send_signal(signal.SIGTERM)
print(json.dumps({**exit_codes, "server": server.wait()}))

"""``idle_server.py FOLDER SECONDS COMMAND…``: a server that nobody asks for anything.

Starts it with ``--port`` added, and when it is ready makes FOLDER/began; SECONDS of virtual time
later, FOLDER/ended. Then it stops the server.
"""

import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

SETTLE_S = 10  # of virtual time: what a start leaves to do


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def await_ready(url, server):
    while server.poll() is None:
        try:
            with urllib.request.urlopen(url):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(1)
    sys.exit(f"the server ended with exit code {server.returncode}")


def main():
    folder, seconds, *command = sys.argv[1:]
    port = free_port()
    server = subprocess.Popen([*command, "--port", str(port)])
    try:
        await_ready(f"http://127.0.0.1:{port}/health", server)
        time.sleep(SETTLE_S)
        (Path(folder) / "began").touch()
        time.sleep(float(seconds))
        (Path(folder) / "ended").touch()
        if server.poll() is not None:
            sys.exit(f"the server ended with exit code {server.returncode}")
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait()


if __name__ == "__main__":
    main()

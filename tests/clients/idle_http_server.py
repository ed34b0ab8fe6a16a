"""An HTTP server that is asked once in an hour; prints the date that it answers with, and when."""

import json
import os
import signal
import sys
import threading
import time
import urllib.request
from email.utils import parsedate_to_datetime

import uvicorn

from warpserve.patches.http_server import look_each_second
from warpserve.patches.imported import after_import

PORT = int(sys.argv[1])
ASKED_S = 1_800.7


async def answer(_scope, _receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b""})


def ask():
    time.sleep(ASKED_S)
    with urllib.request.urlopen(f"http://127.0.0.1:{PORT}/") as response:
        date_s = parsedate_to_datetime(response.headers["date"]).timestamp()
    print(json.dumps({"date_s": date_s, "now_s": time.time()}), flush=True)
    time.sleep(3_600 - ASKED_S)
    os.kill(os.getpid(), signal.SIGTERM)


after_import("uvicorn.server", look_each_second)
threading.Thread(target=ask, daemon=True).start()
uvicorn.run(answer, host="127.0.0.1", port=PORT, log_level="warning", lifespan="off")

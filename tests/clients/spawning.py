"""Spawns processes while a fork server stands by, and prints what they are, as JSON.

They are asked for a mark that this program has left in a module: a fresh process has none.
"""

import json
import math
import multiprocessing
import os
import signal
import sys
import threading
import time
from pathlib import Path

from warpserve.patches.fork_server import stand_by


def tell(connection):
    connection.send(
        {
            "forked": hasattr(math, "mark"),
            "read when used": os.environ.get("CUDA_VISIBLE_DEVICES"),
            "read at import": os.environ.get("READ_AT_IMPORT"),
            "parent": os.getppid(),
            "ends at SIGTERM": signal.getsignal(signal.SIGTERM) == signal.SIG_DFL,
            "is interrupted": signal.getsignal(signal.SIGINT) == signal.default_int_handler,
            "name": Path("/proc/self/comm").read_text().strip(),
            "parent's name": Path(f"/proc/{os.getppid()}/comm").read_text().strip(),
        }
    )


def tell_of_child(connection):
    connection.send(told(tell))


def told(target):
    ours, theirs = multiprocessing.get_context("spawn").Pipe()
    process = multiprocessing.get_context("spawn").Process(target=target, args=(theirs,))
    process.start()
    answer = ours.recv()
    process.join()
    return answer


def end_with(code):
    sys.exit(code)


def exit_code(code):
    process = multiprocessing.get_context("spawn").Process(target=end_with, args=(code,))
    process.start()
    process.join()
    return process.exitcode


def sleep(connection):
    connection.send(os.getpid())
    time.sleep(60)


def fail(connection):
    """As a process of SGLang does."""
    connection.send(os.kill(os.getppid(), signal.SIGQUIT))


def main():
    math.mark = True
    stand_by()
    asked = threading.Event()
    signal.signal(signal.SIGQUIT, lambda *_: asked.set())
    report = {"first": told(tell), "exit code": exit_code(7)}
    told(fail)
    report["parent is told"] = asked.wait(10)
    report["child of a child"] = told(tell_of_child)
    os.environ["CUDA_VISIBLE_DEVICES"] = "1"
    report["with another GPU"] = told(tell)
    os.environ["READ_AT_IMPORT"] = "1"
    report["afresh"] = told(tell)
    print(json.dumps(report))


def be_killed():
    """Leaves a process and the fork server behind, and says who they are."""
    stand_by()
    server = multiprocessing.forkserver._forkserver._forkserver_pid
    os.kill(server, signal.SIGTERM)  # as a whole process group may be told
    ours, theirs = multiprocessing.get_context("spawn").Pipe()
    multiprocessing.get_context("spawn").Process(target=sleep, args=(theirs,)).start()
    print(json.dumps({"fork server": server, "process": ours.recv()}), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)


def with_threads():
    """Whose fork would lack them."""
    math.mark = True
    threading.Thread(target=time.sleep, args=(1,), daemon=True).start()
    stand_by()
    print(json.dumps(told(tell)))


if __name__ == "__main__":
    {"main": main, "be_killed": be_killed, "with_threads": with_threads}[sys.argv[1]]()

"""Kills a member in a given state and goes on; prints the virtual ns that it all took.

Arguments: STATE. Prints {"signal": what ended the victim, "elapsed_ns": …}.
"""

import ctypes
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time

HOUR_S = 3600


def running():
    while True:
        pass


def reading_the_clock():
    while True:
        time.monotonic()


def in_a_jump():
    time.sleep(HOUR_S)


def in_poll():
    a, _b = socket.socketpair()
    select.select([a], [], [], HOUR_S)


def in_endless_poll():
    a, _b = socket.socketpair()
    select.select([a], [], [])


def in_a_condition():
    threading.Event().wait(HOUR_S)


def in_an_endless_read():
    os.read(os.pipe()[0], 1)


def holding_the_gil():
    """Three threads want the interpreter, and the fourth sleeps with it."""
    for _ in range(3):
        threading.Thread(target=running, daemon=True).start()
    ctypes.PyDLL(None).sleep(HOUR_S)


def holding_a_mutex():
    """Shared with nobody: its other thread dies waiting for it."""
    lock = threading.Lock()
    lock.acquire()
    threading.Thread(target=lock.acquire).start()
    time.sleep(HOUR_S)


def holding_the_time():
    hold = ctypes.c_void_p()
    assert ctypes.CDLL(None).ws_hold_create(b"victim", ctypes.byref(hold)) == 0
    in_an_endless_read()


def stopped():
    os.kill(os.getpid(), signal.SIGSTOP)


STATES = {
    state.__name__: state
    for state in (
        running,
        reading_the_clock,
        in_a_jump,
        in_poll,
        in_endless_poll,
        in_a_condition,
        in_an_endless_read,
        holding_the_gil,
        holding_a_mutex,
        holding_the_time,
        stopped,
    )
}
# The victim lets no time pass: who waits for an instant first would wait forever.
TIME_STANDS_STILL = ("running", "holding_the_time", "stopped")


def spend_host_time():
    """A tenth of a second of computing: enough for the victim to reach its state."""
    end = time.thread_time() + 0.1
    while time.thread_time() < end:
        pass


def main():
    state = sys.argv[1]
    if len(sys.argv) > 2:
        print("ready", flush=True)
        STATES[state]()
        return
    started_ns = time.monotonic_ns()
    victim = subprocess.Popen([sys.executable, __file__, state, "victim"], stdout=subprocess.PIPE)
    victim.stdout.readline()
    if state in TIME_STANDS_STILL:
        spend_host_time()
    else:
        time.sleep(10)
    victim.kill()
    code = victim.wait()
    time.sleep(5)
    print(json.dumps({"signal": -code, "elapsed_ns": time.monotonic_ns() - started_ns}))


if __name__ == "__main__":
    main()

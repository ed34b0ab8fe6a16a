"""Runs a command while another thread waits for an instant; prints the virtual times as JSON.

Arguments: HOW COMMAND…. HOW is `popen`, `posix_spawn`, `empty_environment` or `system`.
{"child_ns": when the command had ended, "timer_ns": when the other thread's second was over}
"""

import json
import os
import shlex
import subprocess
import sys
import threading
import time


def run(how, command):
    if how == "popen":
        subprocess.run(command, check=True)
    elif how == "posix_spawn":
        pid = os.posix_spawn(command[0], command, os.environ)
        assert os.waitpid(pid, 0)[1] == 0
    elif how == "empty_environment":
        subprocess.run(command, env={}, check=True)
    elif how == "system":
        assert os.system(shlex.join(command)) == 0
    else:
        raise SystemExit(f"what is {how}?")


def main():
    started_ns = time.monotonic_ns()
    times = {}

    def wait_a_second():
        time.sleep(1)
        times["timer_ns"] = time.monotonic_ns() - started_ns

    timer = threading.Thread(target=wait_a_second)
    timer.start()
    run(sys.argv[1], sys.argv[2:])
    times["child_ns"] = time.monotonic_ns() - started_ns
    timer.join()
    print(json.dumps(times))


if __name__ == "__main__":
    main()

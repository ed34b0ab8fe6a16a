"""Every timed wait of Python, each with the time that it must take on a virtual clock.

Prints one JSON object: {case: {"expected_ns": …, "at_most_ns": …, "measured_ns": …}}. Arguments:
the longest expected wait to run, in ns (default: all). Python 3.10 and later, stdlib only.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import ctypes
import functools
import itertools
import json
import multiprocessing
import os
import queue
import select
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time

MS = 1_000_000
SECOND = 1_000 * MS
DAY = 86_400 * SECOND

# Python ends some waits only once their deadline lies behind: at it, it polls again and again, and
# is charged for it as for any busy-wait.
BEHIND_THE_DEADLINE = 1

# Timeouts below are whole milliseconds that a double holds exactly: epoll's and poll's unit.
CASES = {}


def takes(expected_ns, at_most_ns=None):
    def register(case):
        CASES[case.__name__] = (expected_ns, at_most_ns or expected_ns, case)
        return case

    return register


def coroutine(case):
    @functools.wraps(case)
    def run():
        asyncio.run(case())

    return run


def must_time_out(call, *errors):
    try:
        call()
    except errors:
        return
    raise AssertionError("it should have timed out")


@takes(250 * MS)
def time_sleep():
    time.sleep(0.25)


@takes(3 * 250 * MS)
def time_sleep_thrice():
    for _ in range(3):
        time.sleep(0.25)


@takes(0)
def time_sleep_zero():
    time.sleep(0)


@takes(30 * DAY)
def time_sleep_30_days():
    time.sleep(30 * 86_400)


@takes(125 * MS)
@coroutine
async def asyncio_sleep():
    await asyncio.sleep(0.125)


@takes(30 * DAY)
@coroutine
async def asyncio_sleep_30_days():
    await asyncio.sleep(30 * 86_400)


@takes(500 * MS)
@coroutine
async def asyncio_gather():
    await asyncio.gather(*(asyncio.sleep(i / 8) for i in range(5)))


@takes(250 * MS)
@coroutine
async def asyncio_wait_for_times_out():
    try:
        await asyncio.wait_for(asyncio.sleep(3600), 0.25)
    except asyncio.TimeoutError:
        return
    raise AssertionError("wait_for should have timed out")


@takes(125 * MS)
@coroutine
async def asyncio_wait_for_ends_early():
    await asyncio.wait_for(asyncio.sleep(0.125), 3600)


@takes(125 * MS)
@coroutine
async def asyncio_cancelled_timer():
    loop = asyncio.get_running_loop()
    handle = loop.call_later(60, lambda: os._exit(9))
    await asyncio.sleep(0.125)
    handle.cancel()


@takes(250 * MS)
@coroutine
async def asyncio_run_in_executor():
    await asyncio.get_running_loop().run_in_executor(None, time.sleep, 0.25)


@takes(250 * MS)
@coroutine
async def asyncio_subprocess():
    process = await asyncio.create_subprocess_exec("sleep", "0.25")
    assert await process.wait() == 0


@takes(125 * MS)
def event_wait():
    assert not threading.Event().wait(0.125)


@takes(125 * MS)
def event_set_early():
    event = threading.Event()
    threading.Timer(0.125, event.set).start()
    assert event.wait(3600)


@takes(125 * MS)
def condition_wait():
    condition = threading.Condition()
    with condition:
        assert not condition.wait(0.125)


@takes(125 * MS)
def lock_acquire():
    lock = threading.Lock()
    lock.acquire()
    assert not lock.acquire(timeout=0.125)


@takes(125 * MS)
def semaphore_acquire():
    assert not threading.Semaphore(0).acquire(timeout=0.125)


@takes(250 * MS)
def thread_join():
    thread = threading.Thread(target=time.sleep, args=(1,))
    thread.start()
    thread.join(0.25)
    assert thread.is_alive()


@takes(250 * MS)
def queue_get():
    must_time_out(lambda: queue.Queue().get(timeout=0.25), queue.Empty)


@takes(250 * MS)
def simple_queue_get():
    must_time_out(lambda: queue.SimpleQueue().get(timeout=0.25), queue.Empty)


@takes(125 * MS)
def select_select():
    a, b = socket.socketpair()
    with a, b:
        assert select.select([a], [], [], 0.125) == ([], [], [])


@takes(125 * MS)
def select_without_descriptors():
    select.select([], [], [], 0.125)


@takes(125 * MS)
def select_poll():
    a, b = socket.socketpair()
    with a, b:
        poller = select.poll()
        poller.register(a, select.POLLIN)
        assert poller.poll(125) == []


@takes(125 * MS)
def select_epoll():
    a, b = socket.socketpair()
    with a, b, select.epoll() as poller:
        poller.register(a, select.EPOLLIN)
        assert poller.poll(0.125) == []


@takes(125 * MS)
def selector_is_woken_early():
    a, b = socket.socketpair()
    with a, b, selectors.DefaultSelector() as selector:
        selector.register(a, selectors.EVENT_READ)
        threading.Timer(0.125, b.send, (b"x",)).start()
        assert selector.select(3600)


@takes(250 * MS)
def socket_recv():
    a, b = socket.socketpair()
    with a, b:
        a.settimeout(0.25)
        must_time_out(lambda: a.recv(1), socket.timeout)


@takes(250 * MS)
def socket_accept():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        listener.settimeout(0.25)
        must_time_out(listener.accept, socket.timeout)


@takes(250 * MS)
def signal_sigtimedwait():
    assert signal.sigtimedwait([signal.SIGUSR1], 0.25) is None


@takes(125 * MS)
def signal_sigtimedwait_is_woken():
    main = threading.main_thread().ident
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    threading.Timer(0.125, signal.pthread_kill, (main, signal.SIGUSR1)).start()
    assert signal.sigtimedwait([signal.SIGUSR1], 3600) is not None
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGUSR1])


@takes(250 * MS)
def signal_setitimer():
    fired = []
    signal.signal(signal.SIGALRM, lambda *_: fired.append(time.monotonic_ns()))
    signal.setitimer(signal.ITIMER_REAL, 0.25)
    signal.pause()
    assert fired


@takes(500 * MS)
def signal_setitimer_repeats():
    fired = []
    signal.signal(signal.SIGALRM, lambda *_: fired.append(time.monotonic_ns()))
    signal.setitimer(signal.ITIMER_REAL, 0.25, 0.125)
    for _ in range(3):
        signal.pause()
    signal.setitimer(signal.ITIMER_REAL, 0)
    assert [b - a for a, b in itertools.pairwise(fired)] == [125 * MS] * 2


@takes(1 * SECOND)
def signal_alarm_interrupts_sleep():
    class Alarm(Exception):
        pass

    def ring(*_):
        raise Alarm

    signal.signal(signal.SIGALRM, ring)
    signal.alarm(1)
    must_time_out(lambda: time.sleep(3600), Alarm)


@takes(2 * SECOND)
def signal_alarm_cancelled():
    signal.signal(signal.SIGALRM, lambda *_: os._exit(9))
    signal.alarm(1)
    assert signal.alarm(0) == 1
    time.sleep(2)


class Itimerspec(ctypes.Structure):
    _fields_ = [(name, ctypes.c_long) for name in ("every_s", "every_ns", "first_s", "first_ns")]


def timerfd(first_ns, every_ns=0):
    libc = ctypes.CDLL(None, use_errno=True)
    fd = libc.timerfd_create(time.CLOCK_MONOTONIC, os.O_CLOEXEC)
    set_timer(fd, first_ns, every_ns)
    return fd


def set_timer(fd, first_ns, every_ns=0):
    when = Itimerspec(*divmod(every_ns, SECOND), *divmod(first_ns, SECOND))
    assert ctypes.CDLL(None).timerfd_settime(fd, 0, ctypes.byref(when), None) == 0


@takes(250 * MS)
def timerfd_read():
    fd = timerfd(250 * MS)
    assert int.from_bytes(os.read(fd, 8), "little") == 1
    os.close(fd)


@takes(250 * MS)
def timerfd_in_epoll():
    fd = timerfd(250 * MS)
    with select.epoll() as poller:
        poller.register(fd, select.EPOLLIN)
        assert poller.poll(3600) == [(fd, select.EPOLLIN)]
    os.close(fd)


@takes(500 * MS)
def timerfd_cancelled():
    fd = timerfd(250 * MS)
    set_timer(fd, 0)
    assert select.select([fd], [], [], 0.5) == ([], [], [])
    os.close(fd)


@takes(250 * MS)
def futures_wait():
    with concurrent.futures.ThreadPoolExecutor() as pool:
        future = pool.submit(time.sleep, 0.25)
        done, _ = concurrent.futures.wait([future], timeout=3600)
        assert done


@takes(500 * MS)
def futures_result_times_out():
    with concurrent.futures.ThreadPoolExecutor() as pool:
        future = pool.submit(time.sleep, 0.5)
        must_time_out(lambda: future.result(0.25), concurrent.futures.TimeoutError)


@takes(250 * MS)
def subprocess_sleeps():
    subprocess.run(["sleep", "0.25"], check=True)


def times_out_reading():
    subprocess.run(["sleep", "3600"], timeout=0.25, stdout=subprocess.PIPE)


@takes(250 * MS + BEHIND_THE_DEADLINE)
def subprocess_with_timeout():
    must_time_out(times_out_reading, subprocess.TimeoutExpired)


def queue_of(method):
    context = multiprocessing.get_context(method)
    answers = context.Queue()
    process = context.Process(target=answer_late, args=(answers,))
    process.start()
    assert answers.get(timeout=3600) == "late"
    must_time_out(lambda: answers.get(timeout=0.25), queue.Empty)
    process.join()
    assert process.exitcode == 0


def answer_late(answers):
    time.sleep(0.25)
    answers.put("late")


@takes(500 * MS + BEHIND_THE_DEADLINE)
def multiprocessing_fork():
    queue_of("fork")


@takes(500 * MS + BEHIND_THE_DEADLINE)
def multiprocessing_spawn():
    queue_of("spawn")


# Its manager polls a pipe with timeout 0 each time that it is woken; how many wake-ups it takes for
# one is a race between the threads of the pool.
@takes(500 * MS, at_most_ns=500 * MS + 8 * BEHIND_THE_DEADLINE)
def process_pool():
    with concurrent.futures.ProcessPoolExecutor(2) as pool:
        list(pool.map(time.sleep, [0.5, 0.25]))


@takes(500 * MS)
def a_thread_computes_while_another_sleeps():
    """The one that computes is finished before time moves at all."""
    started = time.monotonic_ns()
    computed = []

    def compute():
        total = 0
        for i in range(1_000_000):
            total += i
        computed.append(time.monotonic_ns() - started)

    thread = threading.Thread(target=compute)
    thread.start()
    time.sleep(0.5)
    assert computed == [0], computed
    thread.join()


def measure(case):
    clocks = (time.monotonic_ns, time.time_ns, time.perf_counter_ns)
    before_ns = [clock() for clock in clocks]
    case()
    elapsed = [clock() - before_ns[i] for i, clock in enumerate(clocks)]
    return elapsed[0] if len(set(elapsed)) == 1 else elapsed


def main():
    longest_ns = int(sys.argv[1]) if len(sys.argv) > 1 else sys.maxsize
    results = {}
    for name, (expected_ns, at_most_ns, case) in CASES.items():
        if expected_ns > longest_ns:
            continue
        try:
            measured_ns = measure(case)
        except Exception as error:
            measured_ns = f"{type(error).__name__}: {error}"
        results[name] = {
            "expected_ns": expected_ns,
            "at_most_ns": at_most_ns,
            "measured_ns": measured_ns,
        }
    print(json.dumps(results))


if __name__ == "__main__":
    main()

"""NCCL through ctypes, a process a rank: ``nccl.py SCENARIO RANKS`` prints a JSON list by rank."""

import ctypes
import json
import os
import signal
import statistics
import struct
import sys
import time
from pathlib import Path

INT8, UINT8, INT32, UINT32, INT64, UINT64 = range(6)
FLOAT16, FLOAT32, FLOAT64, BFLOAT16, FLOAT8E4M3, FLOAT8E5M2 = range(6, 12)
SIZES = [1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1]
SUM, PROD, MAX, MIN, AVG = range(5)
SUCCESS, INVALID_ARGUMENT, INVALID_USAGE, REMOTE_ERROR, IN_PROGRESS = 0, 4, 5, 6, 7
TO_DEVICE, TO_HOST = 1, 2
MS = 1_000_000

pointer = ctypes.c_void_p


class UniqueId(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_byte * 128)]


class Config(ctypes.Structure):
    """The beginning of ncclConfig_t; the rest stays 0."""

    _fields_ = [
        ("size", ctypes.c_size_t),
        ("magic", ctypes.c_uint),
        ("version", ctypes.c_uint),
        ("blocking", ctypes.c_int),
        ("rest", ctypes.c_byte * 128),
    ]


def load():
    """The library as vLLM's communicator opens it: by a path that need not exist."""
    cuda = ctypes.CDLL("libcudart.so.13")
    nccl = ctypes.CDLL("/usr/lib/libnccl.so.2")
    nccl.ncclGetErrorString.restype = ctypes.c_char_p
    nccl.ncclGetLastError.restype = ctypes.c_char_p
    nccl.ncclGetLastError.argtypes = [pointer]
    return cuda, nccl


def check(result):
    assert result == SUCCESS, f"{result}: {nccl.ncclGetLastError(None).decode()}"


class Buffer:
    """Memory of a device, with bytes in it."""

    def __init__(self, contents):
        self.bytes = len(contents)
        self.address = pointer()
        check(cuda.cudaMalloc(ctypes.byref(self.address), ctypes.c_size_t(self.bytes)))
        self.fill(contents)

    def fill(self, contents):
        held = ctypes.create_string_buffer(contents, len(contents))
        check(cuda.cudaMemcpy(self.address, held, ctypes.c_size_t(self.bytes), TO_DEVICE))

    def at(self, offset):
        return pointer(self.address.value + offset)

    def read(self):
        held = ctypes.create_string_buffer(self.bytes)
        check(cuda.cudaMemcpy(held, self.address, ctypes.c_size_t(self.bytes), TO_HOST))
        return held.raw


def new_stream():
    stream = pointer()
    check(cuda.cudaStreamCreateWithFlags(ctypes.byref(stream), 1))
    return stream


def wait(stream):
    check(cuda.cudaStreamSynchronize(stream))
    return time.monotonic_ns()


def new_id():
    unique = UniqueId()
    check(nccl.ncclGetUniqueId(ctypes.byref(unique)))
    return unique


class Ranks:
    """What a scenario knows of the others."""

    def __init__(self, rank, ranks, ids, share):
        self.rank, self.ranks, self._ids, self._share = rank, ranks, ids, share

    def unique_id(self):
        """Made by rank 0, handed to the others."""
        if self.rank != 0:
            return UniqueId.from_buffer_copy(os.read(self._ids, ctypes.sizeof(UniqueId)))
        unique = new_id()
        for fd in self._share:
            os.write(fd, bytes(unique))
        return unique

    def communicator(self):
        check(cuda.cudaSetDevice(self.rank))
        comm = pointer()
        unique = self.unique_id()
        check(nccl.ncclCommInitRank(ctypes.byref(comm), self.ranks, unique, self.rank))
        return comm


def elements(kind, values):
    """Values in the layout of a type; floats of 16 and 8 bits only where they are exact."""
    if kind == BFLOAT16:
        return b"".join(struct.pack("<f", value)[2:] for value in values)
    if kind in (FLOAT8E4M3, FLOAT8E5M2):
        return bytes(float8(kind, value) for value in values)
    form = {FLOAT16: "e", FLOAT32: "f", FLOAT64: "d"}.get(kind, "bBiIqQ"[min(kind, 5)])
    return struct.pack(f"<{len(values)}{form}", *values)


def values_of(kind, contents):
    """The inverse of `elements`."""
    if kind == BFLOAT16:
        halves = (contents[i : i + 2] for i in range(0, len(contents), 2))
        return [struct.unpack("<f", b"\0\0" + half)[0] for half in halves]
    if kind in (FLOAT8E4M3, FLOAT8E5M2):
        codes = {float8(kind, value): value for value in range(9)}
        return [codes[code] for code in contents]
    form = {FLOAT16: "e", FLOAT32: "f", FLOAT64: "d"}.get(kind, "bBiIqQ"[min(kind, 5)])
    return list(struct.unpack(f"<{len(contents) // SIZES[kind]}{form}", contents))


def float8(kind, value):
    """Of a small whole number."""
    bits, bias = (3, 7) if kind == FLOAT8E4M3 else (2, 15)
    if value == 0:
        return 0
    exponent = int(abs(value)).bit_length() - 1
    mantissa = int(abs(value) * 2**bits / 2**exponent) - 2**bits
    assert (2**bits + mantissa) * 2**exponent == abs(value) * 2**bits
    return (value < 0) << 7 | (exponent + bias) << bits | mantissa


def run_operation(name, comm, stream, kind, op, send, recv, count, root):
    size = ctypes.c_size_t(count)
    send, recv = send.address, recv.address
    if name in ("AllReduce", "ReduceScatter"):
        return getattr(nccl, f"nccl{name}")(send, recv, size, kind, op, comm, stream)
    if name == "Reduce":
        return nccl.ncclReduce(send, recv, size, kind, op, root, comm, stream)
    if name in ("Broadcast", "Gather", "Scatter"):
        return getattr(nccl, f"nccl{name}")(send, recv, size, kind, root, comm, stream)
    if name == "Bcast":
        return nccl.ncclBcast(recv, size, kind, root, comm, stream)
    return getattr(nccl, f"nccl{name}")(send, recv, size, kind, comm, stream)


def collectives(own):
    """Every operation on every type: what each rank has in `recv` afterwards."""
    comm, stream = own.communicator(), new_stream()
    count, total = 2, 2 * own.ranks
    found = {}
    for kind in range(12):
        # Sums of 8 bits are exact up to 8.
        values = [(own.rank + i) % (3 if SIZES[kind] > 1 else 2) for i in range(total)]
        for name in OPERATIONS:
            for op in (SUM, PROD, MAX, MIN) if "Reduce" in name else (SUM,):
                send = Buffer(elements(kind, values))
                recv = Buffer(elements(kind, values if name == "Bcast" else [0] * total))
                check(run_operation(name, comm, stream, kind, op, send, recv, count, own.ranks - 1))
                wait(stream)
                found[f"{name} {kind} {op}"] = values_of(kind, recv.read())
                cuda.cudaFree(send.address)
                cuda.cudaFree(recv.address)
    check(nccl.ncclCommDestroy(comm))
    return found


OPERATIONS = [
    "AllReduce",
    "Reduce",
    "Broadcast",
    "Bcast",
    "AllGather",
    "ReduceScatter",
    "AlltoAll",
    "Gather",
    "Scatter",
]


def averages(own):
    """Averages, scaled sums, in place, and what does not exist."""
    comm, stream = own.communicator(), new_stream()
    found = {}
    for kind, values in ((FLOAT32, [1.0, 2.0]), (FLOAT16, [1.0, 2.0]), (INT32, [3, -4])):
        buffer = Buffer(elements(kind, [value + own.rank for value in values]))
        size = ctypes.c_size_t(2)
        check(nccl.ncclAllReduce(buffer.address, buffer.address, size, kind, AVG, comm, stream))
        wait(stream)
        found[f"avg {kind}"] = values_of(kind, buffer.read())
    for residence in (0, 1):
        factor = ctypes.c_float(0.5 + own.rank)
        scalar = ctypes.byref(factor) if residence else Buffer(bytes(factor)).address
        op = ctypes.c_uint()
        create = nccl.ncclRedOpCreatePreMulSum
        check(create(ctypes.byref(op), scalar, FLOAT32, residence, comm))
        buffer = Buffer(elements(FLOAT32, [4.0, 8.0]))
        size = ctypes.c_size_t(2)
        check(nccl.ncclAllReduce(buffer.address, buffer.address, size, FLOAT32, op, comm, stream))
        wait(stream)
        check(nccl.ncclRedOpDestroy(op, comm))
        found[f"scaled {residence}"] = struct.unpack("<2f", buffer.read())
        found["destroyed"] = nccl.ncclRedOpDestroy(op, comm)
    return found


def late(own):
    """When operations end whose ranks come at different times."""
    comm, stream = own.communicator(), new_stream()
    buffer = Buffer(bytes(8))
    enqueue = ctypes.CDLL(None).ws_gpu_enqueue

    def all_reduce():
        args = (buffer.address, buffer.address, ctypes.c_size_t(1), INT64, SUM, comm, stream)
        check(nccl.ncclAllReduce(*args))

    all_reduce()
    start = wait(stream)
    all_reduce()
    together = wait(stream) - start
    # The device is late.
    enqueue(stream, ctypes.c_int64(own.rank * MS))
    begin = time.monotonic_ns()
    all_reduce()
    enqueued = time.monotonic_ns() - begin
    device = wait(stream) - begin
    # The host is late.
    begin = time.monotonic_ns()
    time.sleep(own.rank / 1000)
    all_reduce()
    host = wait(stream) - begin
    # Two in a row, of which the first waits.
    begin = time.monotonic_ns()
    time.sleep((own.ranks - own.rank) / 1000)
    all_reduce()
    all_reduce()
    return {
        "together": together,
        "enqueued": enqueued,
        "device": device,
        "host": host,
        "twice": wait(stream) - begin,
    }


def messages(own):
    """A ring of messages in a group, several to the same rank, and to oneself."""
    comm, stream = own.communicator(), new_stream()
    left, right = (own.rank - 1) % own.ranks, (own.rank + 1) % own.ranks
    sent = [Buffer(struct.pack("<q", 10 * own.rank + i)) for i in range(3)]
    received = [Buffer(bytes(8)) for _ in range(3)]
    one = ctypes.c_size_t(1)
    check(nccl.ncclGroupStart())
    check(nccl.ncclGroupStart())
    for buffer in sent[:2]:
        check(nccl.ncclSend(buffer.address, one, INT64, right, comm, stream))
    for buffer in received[:2]:
        check(nccl.ncclRecv(buffer.address, one, INT64, left, comm, stream))
    check(nccl.ncclGroupEnd())
    before = received[0].read()
    check(nccl.ncclSend(sent[2].address, one, INT64, own.rank, comm, stream))
    check(nccl.ncclRecv(received[2].address, one, INT64, own.rank, comm, stream))
    check(nccl.ncclGroupEnd())
    end = wait(stream)
    return {
        "before": struct.unpack("<q", before)[0],
        "values": [struct.unpack("<q", buffer.read())[0] for buffer in received],
        "end": end,
    }


def pipeline(own):
    """Rank after rank adds one, without groups, three times over."""
    comm, stream = own.communicator(), new_stream()
    one = ctypes.c_size_t(1)
    values = []
    for round_ in range(3):
        buffer = Buffer(struct.pack("<q", 100 * round_))
        if own.rank > 0:
            check(nccl.ncclRecv(buffer.address, one, INT64, own.rank - 1, comm, stream))
            wait(stream)
            buffer.fill(struct.pack("<q", struct.unpack("<q", buffer.read())[0] + 1))
        if own.rank < own.ranks - 1:
            check(nccl.ncclSend(buffer.address, one, INT64, own.rank + 1, comm, stream))
        values.append(struct.unpack("<q", buffer.read())[0])
    wait(stream)
    return values


def graph(own):
    """A captured all-reduce, replayed with other contents."""
    comm, stream = own.communicator(), new_stream()
    buffer = Buffer(struct.pack("<q", own.rank + 1))
    captured, executable = pointer(), pointer()
    check(cuda.cudaStreamBeginCapture(stream, 1))
    args = (buffer.address, buffer.address, ctypes.c_size_t(1), INT64, SUM, comm, stream)
    check(nccl.ncclAllReduce(*args))
    check(nccl.ncclAllReduce(*args))
    check(cuda.cudaStreamEndCapture(stream, ctypes.byref(captured)))
    check(cuda.cudaGraphInstantiate(ctypes.byref(executable), captured, ctypes.c_ulonglong(0)))
    values, ends = [struct.unpack("<q", buffer.read())[0]], []
    for _ in range(2):
        begin = time.monotonic_ns()
        time.sleep(own.rank / 1000)
        check(cuda.cudaGraphLaunch(executable, stream))
        ends.append(wait(stream) - begin)
        values.append(struct.unpack("<q", buffer.read())[0])
    return {"values": values, "ends": ends}


def splits(own):
    """Halves by parity in reverse order, all but rank 1 (no color), and all but rank 0."""
    comm, stream = own.communicator(), new_stream()

    def sum_of_ranks(of):
        buffer = Buffer(struct.pack("<q", own.rank))
        args = (buffer.address, buffer.address, ctypes.c_size_t(1), INT64, SUM, of, stream)
        check(nccl.ncclAllReduce(*args))
        wait(stream)
        return struct.unpack("<q", buffer.read())[0]

    def place(of):
        rank, ranks, device = (ctypes.c_int() for _ in range(3))
        check(nccl.ncclCommUserRank(of, ctypes.byref(rank)))
        check(nccl.ncclCommCount(of, ctypes.byref(ranks)))
        check(nccl.ncclCommCuDevice(of, ctypes.byref(device)))
        return [rank.value, ranks.value, device.value]

    half, none, fewer = pointer(), pointer(), pointer()
    check(nccl.ncclCommSplit(comm, own.rank % 2, -own.rank, ctypes.byref(half), None))
    found = {"half": place(half), "half_sum": sum_of_ranks(half)}
    color = -1 if own.rank == 1 else 0
    check(nccl.ncclCommSplit(comm, color, 0, ctypes.byref(none), None))
    found["rest"] = None if none.value is None else sum_of_ranks(none)
    if own.rank != 0:
        excluded = (ctypes.c_int * 1)(0)
        check(nccl.ncclCommShrink(comm, excluded, 1, ctypes.byref(fewer), None, 0))
        found["fewer"], found["fewer_sum"] = place(fewer), sum_of_ranks(fewer)
    for of in (half, none, fewer, comm):
        check(nccl.ncclCommFinalize(of) if of.value else SUCCESS)
        check(nccl.ncclCommDestroy(of))
    count = ctypes.c_int()
    found["destroyed"] = nccl.ncclCommCount(half, ctypes.byref(count))
    return found


def threads(own):
    """All ranks in one process, by ncclCommInitAll and one group; and two communicators at once."""
    comms = (pointer * own.ranks)()
    check(nccl.ncclCommInitAll(comms, own.ranks, None))
    streams, buffers = [], []
    for rank in range(own.ranks):
        check(cuda.cudaSetDevice(rank))
        streams.append(new_stream())
        buffers.append(Buffer(struct.pack("<q", rank + 1)))
    halves = (pointer * own.ranks)()
    check(nccl.ncclGroupStart())
    for rank in range(own.ranks):
        half = ctypes.cast(ctypes.addressof(halves) + 8 * rank, ctypes.POINTER(pointer))
        check(nccl.ncclCommSplit(pointer(comms[rank]), rank % 2, rank, half, None))
    check(nccl.ncclGroupEnd())
    one = ctypes.c_size_t(1)
    check(nccl.ncclGroupStart())
    for comm_of in (comms, halves):
        for rank in range(own.ranks):
            at = buffers[rank].address
            comm = pointer(comm_of[rank])
            check(nccl.ncclAllReduce(at, at, one, INT64, SUM, comm, streams[rank]))
    check(nccl.ncclGroupEnd())
    return [
        [wait(streams[rank]), struct.unpack("<q", buffers[rank].read())[0]]
        for rank in range(own.ranks)
    ]


def wrong(own):
    """What can't be right is said at once."""
    comm, stream = own.communicator(), new_stream()
    small = Buffer(bytes(8))
    one, many = ctypes.c_size_t(1), ctypes.c_size_t(1 << 40)
    at = small.address

    def all_reduce(count=one, kind=INT64, op=SUM, of=comm, on=stream, recv=at):
        return nccl.ncclAllReduce(at, recv, count, kind, op, of, on)

    found = {
        "null_communicator": all_reduce(of=None),
        "stale_communicator": all_reduce(of=pointer(16)),
        "type": all_reduce(kind=12),
        "reduction": all_reduce(op=7),
        "too_large": all_reduce(count=many),
        "unmapped": all_reduce(recv=pointer(8)),
        "root": nccl.ncclBroadcast(at, at, one, INT64, own.ranks, comm, stream),
        "peer": nccl.ncclSend(at, one, INT64, -1, comm, stream),
        "group_end": nccl.ncclGroupEnd(),
        "id": nccl.ncclCommInitRank(ctypes.byref(pointer()), 1, UniqueId(), 0),
        "rank": nccl.ncclCommInitRank(ctypes.byref(pointer()), 1, new_id(), 1),
    }
    check(nccl.ncclGroupStart())
    all_reduce(kind=12)
    found["group"] = nccl.ncclGroupEnd()
    found["none"] = all_reduce(count=ctypes.c_size_t(0))
    wait(stream)
    return found


def same_device(own):
    """Two ranks on one GPU."""
    unique, comm = own.unique_id(), pointer()
    check(cuda.cudaSetDevice(0))
    return nccl.ncclCommInitRank(ctypes.byref(comm), own.ranks, unique, own.rank)


def missing(own):
    """Rank 1 never comes to the second all-reduce, and waits for a message instead."""
    comm, stream = own.communicator(), new_stream()
    buffer = Buffer(bytes(8))
    args = (buffer.address, buffer.address, ctypes.c_size_t(1), INT64, SUM, comm, stream)
    check(nccl.ncclAllReduce(*args))
    if own.rank == 1:
        signal.pause()
    check(nccl.ncclAllReduce(*args))
    wait(stream)


def absent(own):
    """Rank 1 makes no communicator."""
    if own.rank == 1:
        signal.pause()
    own.communicator()


def never_sent(own):
    """Rank 1 waits for a message of rank 0, who waits for a signal."""
    comm, stream = own.communicator(), new_stream()
    buffer = Buffer(bytes(8))
    if own.rank == 0:
        signal.pause()
    check(nccl.ncclRecv(buffer.address, ctypes.c_size_t(1), INT64, 0, comm, stream))
    wait(stream)


def async_error(comm):
    """The first error that the communicator tells; polled as a watchdog does."""
    error = ctypes.c_uint()
    while error.value in (SUCCESS, IN_PROGRESS):
        check(nccl.ncclCommGetAsyncError(comm, ctypes.byref(error)))
        time.sleep(0.1)
    return error.value


def killed(own):
    """The last rank is killed; the others learn it, give up the operation and go on without."""
    # As programs have it that are not Python.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    comm, stream = own.communicator(), new_stream()
    buffer = Buffer(struct.pack("<q", own.rank))
    one = ctypes.c_size_t(1)
    if own.rank == own.ranks - 1:
        os.kill(os.getpid(), signal.SIGKILL)

    def all_reduce(of):
        return nccl.ncclAllReduce(buffer.address, buffer.address, one, INT64, SUM, of, stream)

    check(all_reduce(comm))
    found = {"error": async_error(comm), "again": all_reduce(comm)}
    found["message"] = nccl.ncclGetLastError(comm).decode()
    fewer, excluded = pointer(), (ctypes.c_int * 1)(own.ranks - 1)
    check(nccl.ncclCommShrink(comm, excluded, 1, ctypes.byref(fewer), None, 1))
    wait(stream)
    check(nccl.ncclCommAbort(comm))
    check(all_reduce(fewer))
    wait(stream)
    found["sum"] = struct.unpack("<q", buffer.read())[0]
    return found


def mismatch(own):
    """The ranks call different operations."""
    comm, stream = own.communicator(), new_stream()
    buffer = Buffer(bytes(64))
    size = ctypes.c_size_t(1 + own.rank)
    check(nccl.ncclAllReduce(buffer.address, buffer.address, size, INT64, SUM, comm, stream))
    found = {"error": async_error(comm), "message": nccl.ncclGetLastError(comm).decode()}
    check(nccl.ncclCommAbort(comm))
    wait(stream)
    return found


def wrong_message(own):
    """Sender and receiver name different sizes."""
    comm, stream = own.communicator(), new_stream()
    buffer = Buffer(bytes(64))
    size = ctypes.c_size_t(1 + own.rank)
    call = nccl.ncclSend if own.rank == 0 else nccl.ncclRecv
    check(call(buffer.address, size, INT64, 1 - own.rank, comm, stream))
    found = {"error": async_error(comm), "message": nccl.ncclGetLastError(comm).decode()}
    check(nccl.ncclCommAbort(comm))
    wait(stream)
    return found


def nonblocking(own):
    """A communicator that is made while the program goes on."""
    check(cuda.cudaSetDevice(own.rank))
    unique, comm = own.unique_id(), pointer()
    config = Config(ctypes.sizeof(Config), 0xCAFEBEEF, 22809, 0)
    bad = Config()
    make = nccl.ncclCommInitRankConfig
    found = {"bad": make(ctypes.byref(comm), own.ranks, unique, own.rank, ctypes.byref(bad))}
    time.sleep(own.rank / 1000)
    found["made"] = make(ctypes.byref(comm), own.ranks, unique, own.rank, ctypes.byref(config))
    error = ctypes.c_uint(IN_PROGRESS)
    while error.value == IN_PROGRESS:
        check(nccl.ncclCommGetAsyncError(comm, ctypes.byref(error)))
    found["error"] = error.value
    stream, buffer = new_stream(), Buffer(struct.pack("<q", 1))
    args = (buffer.address, buffer.address, ctypes.c_size_t(1), INT64, SUM, comm, stream)
    check(nccl.ncclAllReduce(*args))
    wait(stream)
    found["sum"] = struct.unpack("<q", buffer.read())[0]
    return found


def compute(own):
    """Compute memory has no contents: time passes, and control memory that needs it stays."""
    comm, stream = own.communicator(), new_stream()
    count = 32 << 20
    large, small = pointer(), Buffer(struct.pack("<q", own.rank))
    check(cuda.cudaMalloc(ctypes.byref(large), ctypes.c_size_t(count)))
    begin = time.monotonic_ns()
    size = ctypes.c_size_t(count // 8)
    check(nccl.ncclAllReduce(large, large, size, INT64, SUM, comm, stream))
    took = wait(stream) - begin
    one = ctypes.c_size_t(1)
    source = large if own.rank == 0 else small.address
    check(nccl.ncclAllReduce(source, small.address, one, INT64, SUM, comm, stream))
    wait(stream)
    return {"took": took, "small": struct.unpack("<q", small.read())[0]}


def other_api(own):
    """Versions, words, memory and registration."""
    comm = own.communicator()
    version, address, handle = ctypes.c_int(), pointer(), pointer()
    check(nccl.ncclGetVersion(ctypes.byref(version)))
    check(nccl.ncclMemAlloc(ctypes.byref(address), ctypes.c_size_t(1024)))
    check(nccl.ncclCommRegister(comm, address, ctypes.c_size_t(1024), ctypes.byref(handle)))
    check(nccl.ncclCommDeregister(comm, handle))
    register = nccl.ncclCommWindowRegister
    check(register(comm, address, ctypes.c_size_t(1024), ctypes.byref(handle), 1))
    check(nccl.ncclCommWindowDeregister(comm, handle))
    check(nccl.ncclMemFree(address))
    words = [nccl.ncclGetErrorString(code).decode() for code in (0, 6, 99)]
    scalable = pointer()
    check(
        nccl.ncclCommInitRankScalable(ctypes.byref(scalable), 1, 0, 1, ctypes.byref(new_id()), None)
    )
    return {"version": version.value, "words": words}


def many(own):
    """Hundreds of operations on a MiB; the process must not grow with them."""
    comm, stream = own.communicator(), new_stream()
    buffer = Buffer(bytes(1 << 20))
    args = (buffer.address, buffer.address, ctypes.c_size_t(1 << 20), UINT8, SUM, comm, stream)

    def resident_kib():
        with Path("/proc/self/status").open() as status:
            return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))

    for _ in range(20):
        check(nccl.ncclAllReduce(*args))
    wait(stream)
    before = resident_kib()
    for _ in range(200):
        check(nccl.ncclAllReduce(*args))
    wait(stream)
    return resident_kib() - before


def overhead(own):
    """Host time of an all-reduce of 8 bytes: waited for one by one, and 50 for each wait; in ns."""
    comm, stream = own.communicator(), new_stream()
    buffer = Buffer(bytes(8))
    args = (buffer.address, buffer.address, ctypes.c_size_t(1), INT64, SUM, comm, stream)
    host_now = ctypes.CDLL(None).ws_host_now_ns
    host_now.restype = ctypes.c_int64
    medians = []
    for calls in (1, 50):
        samples = []
        for _ in range(200):
            begin = host_now()
            for _ in range(calls):
                check(nccl.ncclAllReduce(*args))
            wait(stream)
            samples.append((host_now() - begin) / calls)
        medians.append(statistics.median(samples))
    return medians


def start_rank(rank, ranks, scenario, ids, share, answer):
    global cuda, nccl
    cuda, nccl = load()
    result = scenario(Ranks(rank, ranks, ids, share))
    os.write(answer, json.dumps(result).encode())


def main():
    scenario, ranks = globals()[sys.argv[1]], int(sys.argv[2])
    processes = 1 if scenario is threads else ranks
    id_pipes = [os.pipe() for _ in range(processes)]
    answers = []
    for rank in range(processes):
        answer, told = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(answer)
            try:
                share = [ends[1] for ends in id_pipes[1:]]
                start_rank(rank, ranks, scenario, id_pipes[rank][0], share, told)
                sys.stdout.flush()
                os._exit(0)
            except BaseException as error:
                print(f"rank {rank}: {error!r}", file=sys.stderr, flush=True)
                os._exit(1)
        os.close(told)
        answers.append((child, answer))
    results = []
    failed = False
    for child, answer in answers:
        with os.fdopen(answer, "rb") as told:
            text = told.read()
        results.append(json.loads(text) if text else None)
        failed = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1 or failed
    print(json.dumps(results))
    sys.exit(failed)


if __name__ == "__main__":
    main()

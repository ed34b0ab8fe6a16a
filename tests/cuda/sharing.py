"""Events and memory between two processes, values that streams wait for, memory of graphs; JSON.

``sharing.py child EVENT MEMORY`` is the other process.
"""

import ctypes
import json
import mmap
import subprocess
import sys
import time
from pathlib import Path

MS = 1_000_000
runtime = ctypes.CDLL("libcudart.so.13")
cuda = ctypes.CDLL("libcuda.so.1")
u32, u64, handle = ctypes.c_uint32, ctypes.c_uint64, ctypes.c_void_p
cuda.ws_gpu_enqueue.argtypes = [handle, ctypes.c_int64]
INTERPROCESS = 4 | 2
DEVICE_TO_HOST = 2
MAP_NORESERVE, MADV_POPULATE_WRITE = 0x4000, 23


class Handle(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_ubyte * 64)]


def call(library, name, *arguments):
    code = getattr(library, name)(*arguments)
    assert code == 0, f"{name}: {code}"


def made(library, name, *arguments):
    value = handle()
    call(library, name, ctypes.byref(value), *arguments)
    return value


def new_stream():
    return made(runtime, "cudaStreamCreateWithFlags", 1)


def ipc_handle(name, value):
    exported = Handle()
    call(runtime, name, ctypes.byref(exported), value)
    return bytes(exported).hex()


def opened(name, text, *arguments):
    return made(runtime, name, Handle.from_buffer_copy(bytes.fromhex(text)), *arguments)


def took_ms(begin_ns):
    return round((time.monotonic_ns() - begin_ns) / MS, 3)


def child(event, memory):
    """Waits for the parent's event, on the host and in a stream; records it after 3 ms of work."""
    begin = time.monotonic_ns()
    event = opened("cudaIpcOpenEventHandle", event)
    address = opened("cudaIpcOpenMemHandle", memory, 1)
    stream = new_stream()
    not_ready = runtime.cudaEventQuery(event)
    call(runtime, "cudaStreamWaitEvent", stream, event, 0)
    call(runtime, "cudaStreamSynchronize", stream)
    waited = took_ms(begin)
    call(cuda, "ws_gpu_enqueue", stream, 3 * MS)
    call(cuda, "cuStreamWriteValue32_v2", stream, address, u32(7), 0)
    call(runtime, "cudaEventRecord", event, stream)
    call(runtime, "cudaStreamSynchronize", stream)
    print(json.dumps({"not_ready": not_ready, "waited_ms": waited}))


def events_and_values():
    """The child starts on the parent's clock while the parent's stream works for 100 ms."""
    event = made(runtime, "cudaEventCreateWithFlags", INTERPROCESS)
    address = made(runtime, "cudaMalloc", ctypes.c_size_t(64))
    call(runtime, "cudaMemset", address, 0, ctypes.c_size_t(64))
    stream = new_stream()
    begin = time.monotonic_ns()
    call(cuda, "ws_gpu_enqueue", stream, 100 * MS)
    call(runtime, "cudaEventRecord", event, stream)
    texts = [ipc_handle("cudaIpcGetEventHandle", event), ipc_handle("cudaIpcGetMemHandle", address)]
    other = new_stream()
    call(cuda, "cuStreamWaitValue32_v2", other, address, u32(7), 1)
    command = [sys.executable, __file__, "child", *texts]
    told = subprocess.run(command, check=True, capture_output=True, text=True)
    call(runtime, "cudaEventSynchronize", event)
    both = took_ms(begin)
    call(runtime, "cudaStreamSynchronize", other)
    own = made(runtime, "cudaEventCreateWithFlags", 2)
    call(runtime, "cudaEventDestroy", event)
    gone = runtime.cudaIpcOpenEventHandle(
        ctypes.byref(handle()), Handle.from_buffer_copy(bytes.fromhex(texts[0]))
    )
    return {
        "child": json.loads(told.stdout),
        "both_ms": both,
        "value_ms": round(took_ms(begin)),
        "own": runtime.cudaIpcGetEventHandle(ctypes.byref(Handle()), own),
        "destroyed": gone,
    }


def values():
    """Streams of one process; the end of a wait is the instant of the write."""
    address = made(runtime, "cudaMalloc", ctypes.c_size_t(64))
    call(runtime, "cudaMemset", address, 0, ctypes.c_size_t(64))
    call(runtime, "cudaDeviceSynchronize")
    writer, reader = new_stream(), new_stream()
    ends = []
    for flags, value in ((1, u64(5)), (0, u64(4)), (2, u64(1)), (3, u64(0))):
        begin = time.monotonic_ns()
        call(runtime, "cudaMemset", address, 0, ctypes.c_size_t(8))
        call(cuda, "cuStreamWaitValue64_v2", reader, address, value, flags)
        not_ready = runtime.cudaStreamQuery(reader)
        call(cuda, "ws_gpu_enqueue", writer, 2 * MS)
        call(cuda, "cuStreamWriteValue64_v2", writer, address, u64(5), 0)
        call(runtime, "cudaStreamSynchronize", reader)
        ends.append([not_ready, took_ms(begin)])
    compute = made(runtime, "cudaMalloc", ctypes.c_size_t(64 << 20))
    return {
        "ends": ends,
        "misaligned": cuda.cuStreamWaitValue32_v2(reader, handle(address.value + 2), u32(0), 0),
        "compute": cuda.cuStreamWaitValue32_v2(reader, compute, u32(0), 0),
    }


def memory_of_graphs():
    """What is allocated while a stream captures."""
    free, total = ctypes.c_size_t(), ctypes.c_size_t()

    def free_bytes():
        call(runtime, "cudaDeviceSynchronize")
        call(runtime, "cudaMemGetInfo", ctypes.byref(free), ctypes.byref(total))
        return free.value

    def bytes_of_graphs():
        """Used and reserved, each with its high-water mark."""
        value = u64()
        known = []
        for attribute in range(4):
            call(runtime, "cudaDeviceGetGraphMemAttribute", 0, attribute, ctypes.byref(value))
            known.append(value.value)
        return known

    before = free_bytes()
    stream = new_stream()
    size = ctypes.c_size_t(1 << 30)
    call(runtime, "cudaStreamBeginCapture", stream, 0)
    address = made(runtime, "cudaMallocAsync", size, stream)
    call(runtime, "cudaMemsetAsync", address, 1, size, stream)
    kept = made(runtime, "cudaMallocAsync", ctypes.c_size_t(64), stream)
    call(runtime, "cudaMemsetAsync", kept, 7, ctypes.c_size_t(64), stream)
    call(runtime, "cudaFreeAsync", address, stream)
    graph = handle()
    call(runtime, "cudaStreamEndCapture", stream, ctypes.byref(graph))
    executable = made(runtime, "cudaGraphInstantiate", graph, u64(0))
    early = runtime.cudaFree(kept)
    call(runtime, "cudaGraphLaunch", executable, stream)
    call(runtime, "cudaStreamSynchronize", stream)
    read = (ctypes.c_ubyte * 4)()
    call(runtime, "cudaMemcpy", read, kept, ctypes.c_size_t(4), DEVICE_TO_HOST)
    used = before - free_bytes()
    known = [bytes_of_graphs()]
    call(runtime, "cudaGraphExecDestroy", executable)
    call(runtime, "cudaGraphDestroy", graph)
    left = before - free_bytes()
    call(runtime, "cudaMemcpy", read, kept, ctypes.c_size_t(4), DEVICE_TO_HOST)
    codes = [runtime.cudaFree(kept) for _ in range(2)]
    call(runtime, "cudaDeviceSetGraphMemAttribute", 0, 1, ctypes.byref(u64(0)))
    call(runtime, "cudaDeviceGraphMemTrim", 0)
    known.append(bytes_of_graphs())
    return {
        "early": early,
        "used_gib": used >> 30,
        "attributes": known,
        "left": left < 1 << 30,
        "read": list(read),
        "freed": codes,
        "gone": before - free_bytes() < 1 << 30,
    }


def populating():
    """Preparing 64 GiB to be pinned costs no memory."""
    pool = mmap.mmap(-1, 64 << 30, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_NORESERVE)
    pool.madvise(MADV_POPULATE_WRITE)
    address = (ctypes.c_char * 1).from_buffer(pool)
    call(runtime, "cudaHostRegister", address, ctypes.c_size_t(64 << 30), 0)
    libc = ctypes.CDLL(None)
    locked = libc.mlock(address, ctypes.c_size_t(64 << 30))
    status = Path("/proc/self/status").read_text().splitlines()
    resident = next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))
    return {"locked": locked, "resident_below_1_gib": resident < 1 << 20}


def main():
    for argtypes in ("cudaFree", "cudaStreamSynchronize", "cudaStreamQuery", "cudaEventQuery"):
        getattr(runtime, argtypes).argtypes = [handle]
    if sys.argv[1:2] == ["child"]:
        return child(*sys.argv[2:])
    print(
        json.dumps(
            {
                "events": events_and_values(),
                "values": values(),
                "graphs": memory_of_graphs(),
                "populating": populating(),
            }
        )
    )
    return None


if __name__ == "__main__":
    main()

"""Fills every GPU to the byte at which the card is full; JSON of that, and of the host's memory."""

import ctypes
import json
from pathlib import Path

runtime = ctypes.CDLL("libcudart.so.13")
size_t, handle = ctypes.c_size_t, ctypes.c_void_p
LARGEST, SMALLEST = 8 << 30, 2 << 20
OUT_OF_MEMORY = 2


def call(name, *arguments):
    code = getattr(runtime, name)(*arguments)
    assert code == 0, f"{name}: {code}"


def count_devices():
    count = ctypes.c_int()
    call("cudaGetDeviceCount", ctypes.byref(count))
    return count.value


def free_bytes():
    free, total = size_t(), size_t()
    call("cudaMemGetInfo", ctypes.byref(free), ctypes.byref(total))
    return free.value


def fill(device):
    """The bytes allocated, in ever smaller pieces."""
    call("cudaSetDevice", device)
    filled, piece = 0, LARGEST
    while piece >= SMALLEST:
        pointer = handle()
        code = runtime.cudaMalloc(ctypes.byref(pointer), size_t(piece))
        assert code in (0, OUT_OF_MEMORY), code
        if code == 0:
            call("cudaMemset", pointer, 7, size_t(piece))
            filled += piece
        else:
            piece //= 2
    runtime.cudaGetLastError()
    assert free_bytes() < SMALLEST
    return filled


def resident_bytes():
    status = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmRSS"))


def main():
    devices = count_devices()
    before = resident_bytes()
    filled = [fill(device) for device in range(devices)]
    print(json.dumps({"filled_bytes": filled, "resident_bytes": resident_bytes() - before}))


main()

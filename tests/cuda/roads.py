"""A program that reaches CUDA by each road; prints what it found as JSON. Standard library only."""

import ctypes
import json
import subprocess
import sys
from pathlib import Path


def text(call, *arguments, capacity=96):
    buffer = ctypes.create_string_buffer(capacity)
    assert call(*arguments, buffer, capacity) == 0
    return buffer.value.decode()


def number(call, *arguments, kind=ctypes.c_uint):
    value = kind()
    code = call(*arguments, ctypes.byref(value))
    return value.value if code == 0 else -code


def handle(nvml, index):
    found = ctypes.c_void_p()
    assert nvml.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(found)) == 0
    return found


def through_nvml():
    nvml = ctypes.CDLL("libnvidia-ml.so.1")
    first = ctypes.c_void_p()
    before = nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(first))
    assert nvml.nvmlInit_v2() == 0
    first, second = handle(nvml, 0), handle(nvml, 1)
    peer = ctypes.c_uint()
    statuses = []
    for capability in range(5):
        nvml.nvmlDeviceGetP2PStatus(first, second, capability, ctypes.byref(peer))
        statuses.append(peer.value)
    return {
        "before_init": before,
        "count": number(nvml.nvmlDeviceGetCount_v2),
        "name": text(nvml.nvmlDeviceGetName, first),
        "uuids": [text(nvml.nvmlDeviceGetUUID, device) for device in (first, second)],
        "p2p": statuses,
        "nvlink_0": number(nvml.nvmlDeviceGetNvLinkState, first, 0),
        "nvlink_18": number(nvml.nvmlDeviceGetNvLinkState, first, 18),
        "index_2": nvml.nvmlDeviceGetHandleByIndex_v2(2, ctypes.byref(ctypes.c_void_p())),
        "driver": text(nvml.nvmlSystemGetDriverVersion),
    }


def through_driver():
    cuda = ctypes.CDLL("libcuda.so.1")
    before = number(cuda.cuDeviceGetCount, kind=ctypes.c_int)
    assert cuda.cuInit(0) == 0
    function, status = ctypes.c_void_p(), ctypes.c_int()
    lookup = cuda.cuGetProcAddress_v2
    flags = ctypes.c_uint64(0)
    found = []
    for name in (b"cuDeviceGetCount", b"cuNoSuchFunction"):
        lookup(name, ctypes.byref(function), 12000, flags, ctypes.byref(status))
        found.append([function.value is not None, status.value])
    lookup(b"cuDeviceGetCount", ctypes.byref(function), 12000, flags, ctypes.byref(status))
    count = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int))(function.value)
    table = ctypes.c_void_p()
    return {
        "before_init": before,
        "found": found,
        "count": number(count, kind=ctypes.c_int),
        "device_2": cuda.cuDeviceGet(ctypes.byref(ctypes.c_int()), 2),
        "no_context": cuda.cuCtxGetDevice(ctypes.byref(ctypes.c_int())),
        "export_table": cuda.cuGetExportTable(ctypes.byref(table), b"0123456789abcdef"),
    }


def through_path(path):
    runtime = ctypes.CDLL(path)
    return {
        "count": number(runtime.cudaGetDeviceCount, kind=ctypes.c_int),
        "is_ours": ctypes.CDLL(None).ws_gpu_enqueue is not None
        and ctypes.cast(runtime.cudaMalloc, ctypes.c_void_p).value
        == ctypes.cast(ctypes.CDLL(None).cudaMalloc, ctypes.c_void_p).value,
    }


def enqueue():
    gpu = ctypes.CDLL(None)
    gpu.ws_gpu_enqueue.argtypes = [ctypes.c_void_p, ctypes.c_int64]
    return [gpu.ws_gpu_enqueue(None, 1), gpu.ws_gpu_enqueue(None, -1)]


def in_child():
    """A child sees the same GPUs."""
    done = subprocess.run(
        [sys.executable, "-c", "import ctypes, json; c = ctypes.c_int();"
         "ctypes.CDLL('libcudart.so').cudaGetDeviceCount(ctypes.byref(c)); print(c.value)"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return int(done.stdout)


def main():
    print(
        json.dumps(
            {
                "nvml": through_nvml(),
                "driver": through_driver(),
                "path": through_path(str(Path(sys.argv[1]) / "libcudart.so.13")),
                "wheels": [
                    through_path(str(Path(sys.argv[1]) / f"libcudart{mark}1a2b3c4d.so.13"))
                    for mark in "-."
                ],
                "enqueue": enqueue(),
                "child": in_child(),
            }
        )
    )


if __name__ == "__main__":
    main()

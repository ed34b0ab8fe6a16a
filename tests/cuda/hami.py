"""What other interposers of CUDA broke, by the public reports of their users; prints JSON.

vLLM 0.18 and NCCL under HAMi: memory created with cuMemCreate as ncclCuMemHostEnable does, wrong
device ids, queries of peers, functions that are found rather than linked, libraries opened on their
own. (NCCL itself: nccl.py.)
"""

import ctypes
import json
import os

DEVICE, HOST, HOST_NUMA = 1, 2, 3  # CUmemLocationType
PINNED = 1
NO_HANDLE, DESCRIPTOR, FABRIC = 0, 1, 8
u64 = ctypes.c_uint64


class Location(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("id", ctypes.c_int)]


class Properties(ctypes.Structure):
    _fields_ = [
        ("type", ctypes.c_int),
        ("handles", ctypes.c_int),
        ("location", Location),
        ("windows", ctypes.c_void_p),
        ("flags", ctypes.c_ubyte * 8),
    ]


class Access(ctypes.Structure):
    _fields_ = [("location", Location), ("flags", ctypes.c_int)]


cuda = ctypes.CDLL("libcuda.so.1", mode=os.RTLD_NOW | os.RTLD_LOCAL | os.RTLD_DEEPBIND)


def number(call, *arguments, kind=ctypes.c_int):
    value = kind()
    code = call(ctypes.byref(value), *arguments)
    return value.value if code == 0 else -code


def create(location, device, handles):
    """The code of cuMemCreate, and of all that NCCL does with what it gave."""
    properties = Properties(PINNED, handles, Location(location, device))
    granularity = u64()
    code = cuda.cuMemGetAllocationGranularity(
        ctypes.byref(granularity), ctypes.byref(properties), 0
    )
    handle, address, shareable = u64(), u64(), ctypes.c_int(-1)
    size = u64(granularity.value or 1 << 21)
    codes = [code, cuda.cuMemCreate(ctypes.byref(handle), size, ctypes.byref(properties), u64(0))]
    if codes[-1] != 0:
        return codes
    codes.append(cuda.cuMemAddressReserve(ctypes.byref(address), size, granularity, u64(0), u64(0)))
    codes.append(cuda.cuMemMap(address, size, u64(0), handle, u64(0)))
    access = (Access * 1)(Access(Location(DEVICE, 0), 3))
    codes.append(cuda.cuMemSetAccess(address, size, access, u64(1)))
    if location != DEVICE:
        access[0].location = Location(location, device)
        codes.append(cuda.cuMemSetAccess(address, size, access, u64(1)))
        ctypes.memset(address.value, 1, 64)  # the CPU writes what the GPU reads
    if handles == DESCRIPTOR:
        exported = cuda.cuMemExportToShareableHandle(
            ctypes.byref(shareable), handle, handles, u64(0)
        )
        codes.append(exported)
        os.close(shareable.value)
    codes.append(cuda.cuMemUnmap(address, size))
    codes.append(cuda.cuMemRelease(handle))
    codes.append(cuda.cuMemAddressFree(address, size))
    return codes


def peers():
    runtime = ctypes.CDLL("libcudart.so.13")
    pairs = [(0, 1), (1, 0), (0, 0), (0, 7)]
    return {
        "can_access": [number(runtime.cudaDeviceCanAccessPeer, *pair) for pair in pairs],
        "driver": [number(cuda.cuDeviceCanAccessPeer, *pair) for pair in pairs],
        "attributes": [
            number(runtime.cudaDeviceGetP2PAttribute, what, 0, 1) for what in range(1, 5)
        ],
        "enable": runtime.cudaDeviceEnablePeerAccess(1, 0),
        "enable_again": runtime.cudaDeviceEnablePeerAccess(1, 0),
    }


def wrong_devices():
    context = ctypes.c_void_p()
    return {
        "get": [number(cuda.cuDeviceGet, device) for device in (0, 1, 2, -1)],
        "attribute": [number(cuda.cuDeviceGetAttribute, 75, device) for device in (0, 2, -5)],
        "retain": cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 2),
        "memory": [create(DEVICE, device, NO_HANDLE)[1] for device in (2, -1)],
        "numa_node": create(HOST_NUMA, 77, NO_HANDLE)[1],
    }


def main():
    before_init = number(cuda.cuDeviceGet, 0)
    assert cuda.cuInit(0) == 0
    context = ctypes.c_void_p()
    assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
    assert cuda.cuCtxSetCurrent(context) == 0
    found, status = ctypes.c_void_p(), ctypes.c_int()
    for name in (b"cuMemCreate", b"cuDeviceGet", b"cuMulticastCreate"):
        lookup = cuda.cuGetProcAddress_v2
        assert lookup(name, ctypes.byref(found), 12080, u64(0), ctypes.byref(status)) == 0
        assert found.value == ctypes.cast(getattr(cuda, name.decode()), ctypes.c_void_p).value
    print(
        json.dumps(
            {
                "before_init": before_init,
                "device": create(DEVICE, 1, NO_HANDLE),
                "device_shared": create(DEVICE, 0, DESCRIPTOR),
                "fabric": create(DEVICE, 0, FABRIC)[1],
                "host": create(HOST, 0, NO_HANDLE),
                "host_numa": create(HOST_NUMA, 0, DESCRIPTOR),
                "peers": peers(),
                "wrong_devices": wrong_devices(),
                "multicast": number(cuda.cuDeviceGetAttribute, 132, 0),
                "fabric_supported": number(cuda.cuDeviceGetAttribute, 128, 0),
                "host_numa_supported": number(cuda.cuDeviceGetAttribute, 141, 0),
            }
        )
    )


if __name__ == "__main__":
    main()

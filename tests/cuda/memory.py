"""Memory through the driver: mappings, pools, pointers, IPC, forked children; prints JSON."""

import ctypes
import json
import os
import subprocess
import sys
import time

MIB = 1 << 20
DEVICE = 1  # CU_MEM_LOCATION_TYPE_DEVICE
cuda = ctypes.CDLL("libcuda.so.1")
runtime = ctypes.CDLL("libcudart.so.13")
api = ctypes.CDLL(None)
u64 = ctypes.c_uint64


def call(name, *arguments, library=cuda):
    code = getattr(library, name)(*arguments)
    assert code == 0, f"{name}: {code}"


def out(name, *arguments, kind=u64, library=cuda):
    value = kind()
    call(name, ctypes.byref(value), *arguments, library=library)
    return value


def read(address, size=4):
    buffer = (ctypes.c_ubyte * size)()
    call("cuMemcpyDtoH_v2", buffer, u64(address), u64(size))
    return list(buffer)


def with_mappings():
    """The same physical memory, mapped a second time elsewhere."""
    properties = (ctypes.c_uint32 * 8)(1, 1, DEVICE, 0, 0, 0, 0, 0)
    granularity = out("cuMemGetAllocationGranularity", properties, 0).value
    physical = out("cuMemCreate", u64(granularity), properties, u64(0))
    seen = []
    access = (ctypes.c_uint32 * 3)(DEVICE, 0, 3)
    for fill in (7, None):
        address = out("cuMemAddressReserve", u64(granularity), u64(0), u64(0), u64(0))
        call("cuMemMap", address, u64(granularity), u64(0), physical, u64(0))
        call("cuMemSetAccess", address, u64(granularity), access, u64(1))
        if fill is not None:
            call("cuMemsetD8_v2", address, ctypes.c_ubyte(fill), u64(16))
        seen.append(read(address.value))
        call("cuMemUnmap", address, u64(granularity))
        call("cuMemAddressFree", address, u64(granularity))
    call("cuMemRelease", physical)
    again = cuda.cuMemRelease(physical)
    return {"granularity": granularity, "seen": seen, "release_again": again}


def with_batches():
    """Blocks to the host and back in one call each, and how long a large batch takes."""
    count = 4
    array = u64 * count
    host = out("cuMemHostAlloc", ctypes.c_size_t(count * MIB), 0, kind=ctypes.c_void_p).value
    on_host = array(*(host + i * MIB for i in range(count)))

    def blocks_of(size):
        device = out("cuMemAlloc_v2", ctypes.c_size_t(count * size)).value
        return array(*(device + i * size for i in range(count)))

    sizes = array(*[4] * count)
    on_device = blocks_of(4096)
    ctypes.memmove(host, bytes(range(1, 5)), 4)
    ctypes.memmove(host + 3 * MIB, bytes(range(5, 9)), 4)
    batch = (u64(count), None, None, u64(0), None)
    call("cuMemcpyBatchAsync_v2", on_device, on_host, sizes, *batch)
    call("cuStreamSynchronize", None)
    there = [read(on_device[0]), read(on_device[3])]
    call("cuMemsetD8_v2", u64(on_device[0]), ctypes.c_ubyte(9), u64(4))
    call(
        "cuMemcpyBatchAsync", on_host, on_device, sizes, u64(count), None, None, u64(0), None, None
    )
    call("cuStreamSynchronize", None)
    back = list(ctypes.string_at(host, 4))
    durations_ns = []
    large = blocks_of(MIB)
    for part in (1, count):
        begin = time.monotonic_ns()
        whole = array(*[part * MIB // count] * count)
        call("cuMemcpyBatchAsync_v2", large, on_host, whole, *batch)
        call("cuStreamSynchronize", None)
        durations_ns.append(time.monotonic_ns() - begin)
    empty = cuda.cuMemcpyBatchAsync_v2(on_device, on_host, sizes, u64(0), None, None, u64(0), None)
    for blocks in (on_device, large):
        call("cuMemFree_v2", u64(blocks[0]))
    return {"there": there, "back": back, "durations_ns": durations_ns, "empty": empty}


def with_pools():
    pool = out("cuDeviceGetDefaultMemPool", 0, kind=ctypes.c_void_p)
    address = out("cuMemAllocAsync", u64(MIB), None)
    used = u64()
    call("cuMemPoolGetAttribute", pool, 7, ctypes.byref(used))
    call("cuMemFreeAsync", address, None)
    return {"used": used.value >= MIB}


@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def sleep_100_ms(_):
    time.sleep(0.1)


def pinned(fill):
    address = out("cuMemHostAlloc", ctypes.c_size_t(4096), 0, kind=ctypes.c_void_p).value
    ctypes.memset(address, fill, 4096)
    return address


def busy_stream():
    """Its work ends when a host function has returned: nobody knows when that is."""
    stream = out("cuStreamCreate", 1, kind=ctypes.c_void_p)
    call("cuLaunchHostFunc", stream, sleep_100_ms, None)
    return stream


def with_frees_in_order():
    """A block goes to another stream when the work that uses it is done."""
    busy, free = busy_stream(), out("cuStreamCreate", 1, kind=ctypes.c_void_p)
    size = u64(4096)
    first = out("cuMemAllocAsync", size, busy)
    call("cuMemcpyHtoDAsync_v2", first, ctypes.c_void_p(pinned(1)), size, busy)
    call("cuMemFreeAsync", first, busy)
    second = out("cuMemAllocAsync", size, free)
    call("cuMemcpyHtoDAsync_v2", second, ctypes.c_void_p(pinned(2)), size, free)
    call("cuStreamSynchronize", busy)
    third = out("cuMemAllocAsync", size, free)
    holds = read(second.value)
    for address in (second, third):
        call("cuMemFreeAsync", address, free)
    return {"holds": holds, "reused": third.value == first.value}


def with_pinned_memory_in_use():
    """Its free waits for the copy that writes to it."""
    begin = time.monotonic()
    stream = busy_stream()
    to = ctypes.c_void_p(pinned(0))
    device = out("cuMemAlloc_v2", u64(4096))
    call("cuMemcpyDtoHAsync_v2", to, device, u64(4096), stream)
    call("cuMemFreeHost", to)
    return time.monotonic() - begin >= 0.1


def with_pointers():
    address = out("cuMemAlloc_v2", u64(1000)).value
    inside = u64(address + 10)
    base, size = u64(), u64()
    call("cuMemGetAddressRange_v2", ctypes.byref(base), ctypes.byref(size), inside)
    kind = out("cuPointerGetAttribute", 2, inside, kind=ctypes.c_uint32).value
    past = cuda.cuMemcpyDtoH_v2((ctypes.c_ubyte * 8)(), u64(address + 2 * MIB), u64(8))
    attributes = (ctypes.c_uint32 * 3)(2, 4, 9)  # memory type, host pointer, device ordinal
    asked = []
    for pointer in (address, ctypes.addressof(base)):
        told = [ctypes.c_uint32(77), u64(77), ctypes.c_int32(77)]
        places = (ctypes.c_void_p * 3)(*map(ctypes.addressof, told))
        call("cuPointerGetAttributes", 3, attributes, places, u64(pointer))
        asked.append([value.value for value in told])
    call("cuMemFree_v2", u64(address))
    freed = cuda.cuMemsetD8_v2(u64(address), ctypes.c_ubyte(0), u64(8))
    return {
        "attributes": asked,
        "base": base.value == address,
        "size": size.value,
        "type": kind,
        "past": past,
        "freed": freed,
    }


def with_ipc():
    """Another process writes into our allocation."""
    address = out("cudaMalloc", u64(4096), kind=ctypes.c_void_p, library=runtime)
    call("cudaMemset", address, 1, u64(4096), library=runtime)
    handle = (ctypes.c_ubyte * 64)()
    call("cudaIpcGetMemHandle", handle, address, library=runtime)
    child = subprocess.run([sys.executable, __file__, bytes(handle).hex()], check=True)
    return {"child": child.returncode, "written": read(address.value)}


class IpcHandle(ctypes.Structure):
    _fields_ = [("reserved", ctypes.c_ubyte * 64)]


def write_to(handle_hex):
    handle = IpcHandle.from_buffer_copy(bytes.fromhex(handle_hex))
    address = ctypes.c_void_p()
    call("cudaIpcOpenMemHandle", ctypes.byref(address), handle, 1, library=runtime)
    call("cudaMemset", address, 42, u64(4), library=runtime)
    call("cudaDeviceSynchronize", library=runtime)
    call("cudaIpcCloseMemHandle", address, library=runtime)


def in_forked_child(function):
    """The code that a child ends with."""
    child = os.fork()
    if child == 0:
        os._exit(function())
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def begun_anew_with_memory():
    """A forked child asks to begin anew where its parent has memory."""
    address = out("cudaMalloc", u64(4096), kind=ctypes.c_void_p, library=runtime)
    code = in_forked_child(api.ws_gpu_begin_anew)
    call("cudaFree", address, library=runtime)
    return code


def begun_anew():
    """And where that has but asked."""
    out("cudaMemGetInfo", ctypes.byref(u64()), library=runtime)  # takes a context

    def allocate():
        free = out("cudaMemGetInfo", ctypes.byref(u64()), kind=u64, library=runtime).value
        address = out("cudaMalloc", u64(8 << 20), kind=ctypes.c_void_p, library=runtime)
        call("cudaMemset", address, 7, u64(8 << 20), library=runtime)
        left = out("cudaMemGetInfo", ctypes.byref(u64()), kind=u64, library=runtime).value
        return 0 if free - left == 8 << 20 else 99

    code = in_forked_child(lambda: api.ws_gpu_begin_anew() or allocate())
    return {"a parent without memory": code, "not forked": api.ws_gpu_begin_anew()}


def main():
    call("cuInit", 0)
    anew = begun_anew()
    context = out("cuDevicePrimaryCtxRetain", 0, kind=ctypes.c_void_p)
    call("cuCtxSetCurrent", context)
    print(
        json.dumps(
            {
                "mappings": with_mappings(),
                "batches": with_batches(),
                "pools": with_pools(),
                "frees in order": with_frees_in_order(),
                "pinned memory is awaited": with_pinned_memory_in_use(),
                "pointers": with_pointers(),
                "ipc": with_ipc(),
                # As on a real GPU, it can't go on with its parent's.
                "fork": in_forked_child(runtime.cudaDeviceSynchronize),
                "anew": anew,
                "anew with memory": begun_anew_with_memory(),
            }
        )
    )


if __name__ == "__main__":
    if len(sys.argv) > 1:
        write_to(sys.argv[1])
    else:
        main()

"""Which calls make a context current, need one, and end one; prints JSON."""

import ctypes
import json
import threading

cuda = ctypes.CDLL("libcuda.so.1")
runtime = ctypes.CDLL("libcudart.so.13")
u64 = ctypes.c_uint64
GIB = 1 << 30


def is_active():
    flags, active = ctypes.c_uint(), ctypes.c_int()
    assert cuda.cuDevicePrimaryCtxGetState(0, ctypes.byref(flags), ctypes.byref(active)) == 0
    return bool(active.value)


def is_current():
    context = ctypes.c_void_p()
    assert cuda.cuCtxGetCurrent(ctypes.byref(context)) == 0
    return context.value is not None


def of_the_driver():
    """The codes of calls that need a context."""
    made, pitch = u64(), u64()
    handle = ctypes.c_void_p()
    return [
        cuda.cuMemAlloc_v2(ctypes.byref(made), u64(4096)),
        cuda.cuMemAllocManaged(ctypes.byref(made), u64(4096), 1),
        cuda.cuMemHostAlloc(ctypes.byref(handle), u64(4096), 0),
        cuda.cuMemAllocPitch_v2(ctypes.byref(made), ctypes.byref(pitch), u64(64), u64(4), 4),
        cuda.cuStreamCreate(ctypes.byref(handle), 0),
        cuda.cuEventCreate(ctypes.byref(handle), 0),
        cuda.cuStreamSynchronize(None),
        cuda.cuCtxSynchronize(),
    ]


def in_another_thread(function):
    found = []
    thread = threading.Thread(target=lambda: found.append(function()))
    thread.start()
    thread.join()
    return found[0]


def used_bytes():
    free, total = u64(), u64()
    assert runtime.cudaMemGetInfo(ctypes.byref(free), ctypes.byref(total)) == 0
    return total.value - free.value


def after_a_runtime_call():
    assert runtime.cudaFree(None) == 0
    return [is_current(), *of_the_driver()]


def by_the_driver_alone():
    """A context that is retained, used and released."""
    context, memory = ctypes.c_void_p(), u64()
    assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
    assert cuda.cuCtxSetCurrent(context) == 0
    assert cuda.cuMemAlloc_v2(ctypes.byref(memory), u64(GIB)) == 0
    active = is_active()
    released = cuda.cuDevicePrimaryCtxRelease_v2(0)
    return {
        "active": [active, is_active()],
        "released": [released, cuda.cuDevicePrimaryCtxRelease_v2(0)],
        "memory": cuda.cuMemFree_v2(memory),
        "destroyed": cuda.cuCtxSynchronize(),
        "current": cuda.cuCtxSetCurrent(None),
    }


def made_and_destroyed():
    """Of two contexts, the last takes the device's memory with it."""
    first, last, memory = ctypes.c_void_p(), ctypes.c_void_p(), u64()
    for context in (first, last):
        assert cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0) == 0
    assert cuda.cuMemAlloc_v2(ctypes.byref(memory), u64(GIB)) == 0
    codes = []
    for context in (last, first):
        assert cuda.cuCtxDestroy_v2(context) == 0
        codes.append(cuda.cuMemGetAddressRange_v2(None, None, memory))
    return codes


def beside_the_runtime():
    """What the driver retains and releases leaves the runtime's memory alone."""
    context, memory = ctypes.c_void_p(), ctypes.c_void_p()
    assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
    assert runtime.cudaMalloc(ctypes.byref(memory), u64(GIB)) == 0
    released = cuda.cuDevicePrimaryCtxRelease_v2(0)
    return {"released": released, "active": is_active(), "kept": used_bytes() >= GIB}


assert cuda.cuInit(0) == 0
print(
    json.dumps(
        {
            "none": [is_active(), is_current(), *of_the_driver()],
            "driver": by_the_driver_alone(),
            "made": made_and_destroyed(),
            "initialized": [runtime.cudaInitDevice(0, 0, 0), is_active(), is_current()],
            "runtime": after_a_runtime_call(),
            "thread": [in_another_thread(is_current), in_another_thread(after_a_runtime_call)],
            "beside": beside_the_runtime(),
        }
    )
)

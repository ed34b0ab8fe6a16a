"""Values beyond what a device has, from which programs fall back; prints JSON."""

import ctypes
import json

cuda = ctypes.CDLL("libcuda.so.1")
runtime = ctypes.CDLL("libcudart.so.13")
u64 = ctypes.c_uint64
MAX_SHARED_OPT_IN = 97  # CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
MAX_DYNAMIC_SHARED = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES


def out(function, *arguments, kind=ctypes.c_int):
    value = kind()
    assert function(ctypes.byref(value), *arguments) == 0
    return value


assert runtime.cudaSetDevice(0) == 0
most = out(cuda.cuDeviceGetAttribute, MAX_SHARED_OPT_IN, 0).value
module = out(cuda.cuModuleLoadData, b"image", kind=ctypes.c_void_p)
kernel = out(cuda.cuModuleGetFunction, module, b"kernel", kind=ctypes.c_void_p)
stranger = ctypes.c_void_p(1234)
memory = out(runtime.cudaMalloc, u64(4096), kind=ctypes.c_void_p)
managed = out(runtime.cudaMallocManaged, u64(4096), 1, kind=ctypes.c_void_p)


def launch(shared_bytes):
    return cuda.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, shared_bytes, None, None, None)


def prefetch(address, size):
    return cuda.cuMemPrefetchAsync(u64(address), u64(size), 0, None)


set_attribute = cuda.cuFuncSetAttribute
print(
    json.dumps(
        {
            "launch": [launch(most), launch(most + 1)],
            "attribute": [
                set_attribute(kernel, MAX_DYNAMIC_SHARED, most),
                set_attribute(kernel, MAX_DYNAMIC_SHARED, most + 1),
                set_attribute(kernel, MAX_DYNAMIC_SHARED, -1),
                set_attribute(stranger, MAX_DYNAMIC_SHARED, 0),
            ],
            "told": out(cuda.cuFuncGetAttribute, MAX_DYNAMIC_SHARED, kernel).value == most,
            "prefetch": [
                prefetch(managed.value, 4096),
                prefetch(managed.value, 1 << 40),
                prefetch(memory.value, 4096),
                prefetch(1, 4096),
            ],
            "flags": [runtime.cudaSetDeviceFlags(flags) for flags in (0, 4 | 8, 1 | 2, 0xDEAD)],
        }
    )
)

"""Compiles at run time, as CuPy, torch and DeepGEMM do, and launches; prints the codes as JSON."""

import ctypes
import json

nvrtc = ctypes.CDLL("libnvrtc.so.13")
cuda = ctypes.CDLL("libcuda.so.1")


def numbers(call, count):
    values = (ctypes.c_int * count)()
    return [call(values), list(values)]


def create(source):
    program = ctypes.c_void_p()
    code = nvrtc.nvrtcCreateProgram(ctypes.byref(program), source, b"a.cu", 0, None, None)
    return code, program


def lowered(program, name):
    told = ctypes.c_char_p()
    code = nvrtc.nvrtcGetLoweredName(program, name, ctypes.byref(told))
    return [code, told.value.decode() if code == 0 else None]


def image(program):
    size = ctypes.c_size_t()
    code = nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(size))
    buffer = ctypes.create_string_buffer(size.value)
    return [code, nvrtc.nvrtcGetCUBIN(program, buffer)], buffer


def launch(buffer):
    """Returns the codes of: load, find, count, list and launch."""
    module, named, listed, count = (ctypes.c_void_p() for _ in range(4))
    context = ctypes.c_void_p()
    assert cuda.cuInit(0) == 0
    assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
    assert cuda.cuCtxSetCurrent(context) == 0
    codes = [cuda.cuModuleLoadData(ctypes.byref(module), buffer)]
    codes.append(cuda.cuModuleGetFunctionCount(ctypes.byref(count), module))
    codes.append(cuda.cuModuleEnumerateFunctions(ctypes.byref(listed), 1, module))
    codes.append(cuda.cuModuleGetFunction(ctypes.byref(named), module, b"kernel"))
    for kernel in (listed, named):
        codes.append(cuda.cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, None, None, None))
    return codes


def main():
    created, program = create(b"template<class T> __global__ void fill(T*) {}")
    added = nvrtc.nvrtcAddNameExpression(program, b"fill<int>")
    early = [image(program)[0], lowered(program, b"fill<int>")]
    compiled = nvrtc.nvrtcCompileProgram(program, 0, None)
    told, buffer = image(program)
    print(
        json.dumps(
            {
                "version": numbers(lambda at: nvrtc.nvrtcVersion(at, ctypes.byref(at, 4)), 2),
                "no_source": create(None)[0],
                "codes": [created, added, compiled],
                "early": early,
                "image": told,
                "lowered": [lowered(program, name) for name in (b"fill<int>", b"fill<float>")],
                "late": nvrtc.nvrtcAddNameExpression(program, b"fill<float>"),
                "launch": launch(buffer),
                "destroyed": [nvrtc.nvrtcDestroyProgram(ctypes.byref(program)) for _ in range(2)],
            }
        )
    )


if __name__ == "__main__":
    main()

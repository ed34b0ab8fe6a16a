"""CuPy on the virtual GPU; run with a CuPy that has the toolkit's headers (cupy-cuda13x[ctk]):

warpserve run --gpu h100-sxm:2 -- /path/to/venv/bin/python tests/cuda/cupy_check.py

Prints a line for each check; ends with an error at the first that fails.
"""

import checks
import cupy
import numpy

MIB = 1 << 20
H100_BYTES = 85_017_755_648


def check_properties():
    device = cupy.cuda.runtime.getDeviceProperties(0)
    assert cupy.cuda.runtime.getDeviceCount() == 2
    assert device["name"] == b"NVIDIA H100 80GB HBM3"
    assert device["totalGlobalMem"] == H100_BYTES
    assert cupy.cuda.Device(1).compute_capability == "90"
    assert cupy.cuda.runtime.deviceCanAccessPeer(0, 1) == 1


def check_copies():
    host = numpy.arange(1000.0)
    for device in (0, 1):
        with cupy.cuda.Device(device):
            assert (cupy.asnumpy(cupy.asarray(host)) == host).all()
    with cupy.cuda.Device(0):
        there = cupy.asarray(host)
    with cupy.cuda.Device(1):
        assert (cupy.asnumpy(there.copy()) == host).all()
    assert (cupy.asnumpy(cupy.asarray(host)[10:20]) == host[10:20]).all()
    pinned = cupy.cuda.alloc_pinned_memory(host.nbytes)
    assert len(bytes(pinned)) >= host.nbytes


def check_memory_pool():
    pool = cupy.get_default_memory_pool()
    pool.free_all_blocks()
    free_before, _ = cupy.cuda.runtime.memGetInfo()
    array = cupy.empty(1 << 30, dtype=numpy.uint8)
    assert pool.used_bytes() == 1 << 30
    assert cupy.cuda.runtime.memGetInfo()[0] == free_before - (1 << 30)
    del array
    assert pool.used_bytes() == 0
    assert pool.total_bytes() == 1 << 30
    pool.free_all_blocks()
    assert cupy.cuda.runtime.memGetInfo()[0] == free_before
    fits = True
    try:
        cupy.empty(H100_BYTES, dtype=numpy.uint8)
    except cupy.cuda.memory.OutOfMemoryError:
        fits = False
    assert not fits


def check_kernels():
    """They are compiled in no time, launched, and compute nothing."""
    array = cupy.arange(16, dtype=numpy.float32)
    assert (array * 2 + 1).shape == (16,)
    assert float(array.sum()) == 0
    double = cupy.ElementwiseKernel("T x", "T y", "y = 2 * x", "double")
    assert double(array).dtype == numpy.float32
    raw = cupy.RawModule(
        code="template<class T> __global__ void fill(T* x) {}",
        name_expressions=["fill<float>"],
        options=("-std=c++17",),
    )
    raw.get_function("fill<float>")((1,), (32,), (array,))
    source = cupy.RawKernel('extern "C" __global__ void named(float* x) {}', "named")
    source((1,), (32,), (array,))
    assert source.num_regs > 0
    complaint = ""
    try:
        source((1,), (2048,), (array,))
    except cupy.cuda.driver.CUDADriverError as error:
        complaint = str(error)
    assert "INVALID_VALUE" in complaint


def check_streams_and_events():
    stream = cupy.cuda.Stream(non_blocking=True)
    begin, end = cupy.cuda.Event(), cupy.cuda.Event()
    pinned = numpy.frombuffer(cupy.cuda.alloc_pinned_memory(64 * MIB), numpy.uint8, 64 * MIB)
    there = cupy.empty(64 * MIB, dtype=numpy.uint8)
    with stream:
        begin.record()
        there.set(pinned, stream)
        end.record()
    assert not end.done
    end.synchronize()
    assert stream.done
    gb_per_s = 64 * MIB / cupy.cuda.get_elapsed_time(begin, end) / 1e6
    assert 50 < gb_per_s < 64, gb_per_s


def check_graphs():
    stream = cupy.cuda.Stream(non_blocking=True)
    array = cupy.zeros(16, dtype=numpy.float32)
    with stream:
        stream.begin_capture()
        array += 1
        graph = stream.end_capture()
    graph.launch(stream)
    stream.synchronize()


if __name__ == "__main__":
    checks.run(globals())

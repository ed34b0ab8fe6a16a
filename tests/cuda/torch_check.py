"""PyTorch on the virtual GPU; run with a torch built for CUDA, which is no dependency of ours:

warpserve run --gpu h100-sxm:2 -- /path/to/venv/bin/python tests/cuda/torch_check.py

Prints a line for each check; ends with an error at the first that fails.
"""

import ctypes
import time

import checks
import torch

MS = 1_000_000
GIB = 1 << 30
gpu = ctypes.CDLL(None)


def enqueue(duration_ns, stream=None):
    stream = stream or torch.cuda.current_stream()
    code = gpu.ws_gpu_enqueue(ctypes.c_void_p(stream.cuda_stream), ctypes.c_int64(duration_ns))
    assert code == 0


def now_ns():
    return time.monotonic_ns()


def check_properties():
    properties = torch.cuda.get_device_properties(0)
    assert torch.cuda.device_count() == 2
    assert (properties.major, properties.minor) == (9, 0)
    assert properties.multi_processor_count == 132
    assert torch.cuda.can_device_access_peer(0, 1)
    assert torch.cuda.get_device_name(1) == "NVIDIA H100 80GB HBM3"


def check_copies():
    values = torch.arange(1000)
    assert torch.equal(values.to("cuda").to("cuda:1").cpu(), values)
    pinned = torch.empty(1000, dtype=torch.int64, pin_memory=True)
    pinned.copy_(values.cuda(), non_blocking=True)
    torch.cuda.synchronize()
    assert torch.equal(pinned, values)


def check_events():
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    enqueue(5 * MS)
    end.record()
    assert not end.query()
    end.synchronize()
    assert start.elapsed_time(end) == 5.0


def check_streams():
    begin = now_ns()
    side = torch.cuda.Stream()
    enqueue(4 * MS)
    side.wait_stream(torch.cuda.current_stream())
    enqueue(3 * MS, side)
    assert now_ns() == begin
    side.synchronize()
    assert now_ns() - begin == 7 * MS


def check_memory():
    torch.cuda.empty_cache()
    free, total = torch.cuda.mem_get_info()
    assert total == torch.cuda.get_device_properties(0).total_memory
    weights = torch.empty(40 * GIB, dtype=torch.uint8, device="cuda")
    assert free - torch.cuda.mem_get_info()[0] == 40 * GIB
    out_of_memory = ""
    try:
        torch.empty(40 * GIB, dtype=torch.uint8, device="cuda")
    except torch.cuda.OutOfMemoryError as error:
        out_of_memory = str(error)
    assert "CUDA out of memory" in out_of_memory
    del weights
    torch.cuda.empty_cache()
    assert torch.cuda.mem_get_info()[0] == free


def check_graphs():
    work = torch.zeros(1000, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        enqueue(2 * MS)
        work.add_(1)
    torch.cuda.synchronize()
    begin = now_ns()
    for _ in range(3):
        graph.replay()
    torch.cuda.synchronize()
    assert now_ns() - begin == 6 * MS


def check_matrix_product():
    left, right = (torch.empty(256, 256, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    assert (left @ right).shape == (256, 256)
    layer = torch.nn.Linear(256, 512, device="cuda", dtype=torch.bfloat16)
    assert layer(left).shape == (256, 512)
    torch.cuda.synchronize()


def check_kernels():
    """Kernels launch, and compute nothing: their outputs are what was there before."""
    assert torch.zeros(4, device="cuda").shape == (4,)
    values = torch.rand(1000, device="cuda")
    assert torch.softmax(values, 0).argmax().shape == ()
    assert values.sort().values.shape == (1000,)


if __name__ == "__main__":
    checks.run(globals())

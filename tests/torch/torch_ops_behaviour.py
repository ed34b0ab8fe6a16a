"""How operators on control memory behave on a virtual GPU, beside giving the right results:

warpserve run --gpu h100-sxm:2 -- /path/to/venv/bin/python tests/torch/torch_ops_behaviour.py

Prints a line for each check; ends with an error at the first that fails.
"""

import ctypes
import time

import torch
from warpserve_autoload import torch_ops

MS = 1_000_000
MIB = 1 << 20
gpu = ctypes.CDLL(None)


def enqueue(duration_ns, stream=None):
    stream = stream or torch.cuda.current_stream()
    code = gpu.ws_gpu_enqueue(ctypes.c_void_p(stream.cuda_stream), ctypes.c_int64(duration_ns))
    assert code == 0


def elapsed_ns(function):
    torch.cuda.synchronize()
    enqueue(5 * MS)
    begin = time.monotonic_ns()
    function()
    return time.monotonic_ns() - begin


def unknown_of(name):
    return next((entry for entry in torch_ops.unknown() if entry.name == name), None)


def check_identity():
    x = torch.arange(6, device="cuda").reshape(2, 3)
    assert x.add_(1) is x
    row = x[1]
    row.mul_(10)
    assert x.tolist() == [[1, 2, 3], [40, 50, 60]]
    out = torch.empty(0, dtype=torch.int64, device="cuda")
    assert torch.add(x, 1, out=out) is out
    assert out.tolist() == [[2, 3, 4], [41, 51, 61]]
    x.t().copy_(torch.zeros(3, 2, device="cuda"))
    assert x.sum().item() == 0


def check_devices():
    x = torch.arange(4, device="cuda:1")
    assert (x + 1).device == torch.device("cuda:1")
    assert torch.cuda.current_device() == 0
    strided = torch.zeros(4, 2, device="cuda:0", dtype=torch.int64)
    strided[:, 0] = x.to("cuda:0")
    strided[:, 1].copy_(x)
    assert strided.tolist() == [[i, i] for i in range(4)]
    assert torch.equal(strided.cpu()[:, 0], torch.arange(4))


def check_host_arguments():
    x = torch.arange(8, device="cuda")
    assert x[torch.tensor([1, 3])].tolist() == [1, 3]
    x[torch.tensor([0, 2])] = torch.tensor([7, 9])
    assert (x * torch.tensor(2)).tolist()[:3] == [14, 2, 18]
    assert torch.where(x > 5, x, torch.tensor(0)).tolist()[:3] == [7, 0, 9]


def check_errors():
    x = torch.arange(4, device="cuda")
    error = None
    try:
        x[torch.tensor([4], device="cuda")]
    except IndexError as raised:
        error = str(raised)
    assert "out of bounds" in error
    assert x.tolist() == [0, 1, 2, 3]


def check_random():
    before = torch.get_rng_state()
    torch.cuda.manual_seed(3)
    first = [torch.rand(4, device="cuda").tolist(), torch.randperm(9, device="cuda").tolist()]
    torch.cuda.manual_seed(3)
    again = [torch.rand(4, device="cuda").tolist(), torch.randperm(9, device="cuda").tolist()]
    assert first == again
    assert first[0] != torch.rand(4, device="cuda").tolist()
    own = torch.Generator("cuda").manual_seed(3)
    assert torch.rand(4, device="cuda", generator=own).tolist() == first[0]
    assert sorted(first[1]) == list(range(9))
    assert torch.equal(torch.get_rng_state(), before)


def check_time():
    """Only what needs data on the host waits for the stream."""
    x = torch.arange(10, device="cuda")
    mask = x > 4
    assert elapsed_ns(lambda: x.add(1)) == 0
    flags = torch.zeros(10, dtype=torch.bool, device="cuda")
    assert elapsed_ns(lambda: flags.index_put_((x,), mask)) == 0
    assert elapsed_ns(lambda: flags.__setitem__(mask, True)) == 0
    assert elapsed_ns(lambda: flags.__setitem__(mask, mask[:5])) == 5 * MS
    assert elapsed_ns(lambda: x[x]) == 0
    assert elapsed_ns(lambda: torch.nonzero(mask)) == 5 * MS
    assert elapsed_ns(lambda: x[mask]) == 5 * MS
    assert elapsed_ns(lambda: torch.unique(x)) == 5 * MS
    assert elapsed_ns(lambda: torch.repeat_interleave(x)) == 5 * MS
    assert elapsed_ns(lambda: torch.repeat_interleave(x, output_size=45)) == 0
    assert elapsed_ns(lambda: torch.equal(x, x)) >= 5 * MS
    assert elapsed_ns(lambda: x[0].item()) >= 5 * MS
    assert elapsed_ns(lambda: x.cpu()) >= 5 * MS


def check_graphs():
    counter = torch.zeros(3, device="cuda", dtype=torch.int32)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        counter.add_(1)
        doubled = counter * 2
        copy = torch.empty_like(doubled, dtype=torch.float32)
        copy.copy_(doubled)
        chosen = torch.cat([copy, doubled])[counter.clamp(max=2).long()]
        random = torch.rand(4, device="cuda")
        largest = torch.arange(3, device="cuda")[torch.argmax(random[:3], 0, keepdim=True)]
    assert counter.tolist() == [0, 0, 0]
    drawn = set()
    for step in (1, 2, 3):
        graph.replay()
        torch.cuda.synchronize()
        assert counter.tolist() == [step] * 3
        assert copy.tolist() == [2.0 * step] * 3
        assert chosen.tolist() == [2.0 * step] * 3
        drawn.update(random.tolist())
        assert largest.item() == random[:3].argmax().item()
    assert len(drawn) == 12


def check_order():
    """Behind work whose end is not known yet, operators wait for their turn."""
    x = torch.zeros(4, device="cuda", dtype=torch.int64)
    torch.cuda.synchronize()
    address = x.data_ptr()
    host_function = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
    write = host_function(lambda _: ctypes.memset(address, 1, 8) and None)
    stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
    enqueue(5 * MS)
    assert gpu.cudaLaunchHostFunc(stream, write, None) == 0
    one = 0x0101010101010101
    begin = time.monotonic_ns()
    y = x + 1
    x.add_(2)
    joined = torch.cat([y, x])
    resized = torch.empty(0, dtype=torch.int64, device="cuda")
    torch.add(joined, 0, out=resized)
    assert time.monotonic_ns() == begin
    del joined
    assert y.tolist() == [one + 1, 1, 1, 1]
    assert x.tolist() == [one + 2, 2, 2, 2]
    assert resized.tolist() == [one + 1, 1, 1, 1, one + 2, 2, 2, 2]


def check_unknown():
    """What depends on memory without contents is counted, by name."""
    large = torch.empty(64 * MIB, dtype=torch.uint8, device="cuda")
    assert unknown_of("aten::max") is None
    large.max()
    large.max()
    assert unknown_of("aten::max").from_compute_memory == 2
    large.zero_()
    large.add_(1)
    assert unknown_of("aten::zero_") is None
    assert unknown_of("aten::add_") is None


def check_order_of_indices():
    """An index that is not there yet has to be waited for, to know that it is in bounds."""
    table = torch.arange(4, device="cuda")
    index = torch.full((1,), 9, device="cuda")
    torch.cuda.synchronize()
    address = index.data_ptr()
    host_function = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
    write = host_function(lambda _: ctypes.memset(address, 0, 8) and None)
    stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
    assert gpu.cudaLaunchHostFunc(stream, write, None) == 0
    assert table[index].tolist() == [0]


def check_control_memory():
    """A table that is large is computed where it is marked."""
    with torch_ops.control_memory():
        free = torch.arange(1_000_000, device="cuda")
    before = torch_ops.unknown()
    assert free[-3:].tolist() == [999_997, 999_998, 999_999]
    free[-3:] = 0
    assert (free == 0).sum().item() == 4
    assert torch_ops.unknown() == before
    elsewhere = torch.arange(1_000_000, device="cuda")
    assert not gpu.ws_gpu_is_control(ctypes.c_void_p(elsewhere.data_ptr()), ctypes.c_uint64(8))


def check_other_libraries():
    def copy(x, out):
        out.copy_(x)

    library = torch.library.Library("someone", "DEF")
    library.define("work(Tensor x, Tensor(a!) out) -> ()")
    library.impl("work", lambda _x, _out: None, "CUDA")
    library.impl("work", copy, "CPU")
    x, out = torch.ones(3, device="cuda"), torch.zeros(3, device="cuda")
    torch.ops.someone.work(x, out)
    assert unknown_of("someone::work").not_computed == 1
    on_cpu = torch.zeros(3)
    torch.ops.someone.work(torch.ones(3), on_cpu)
    assert on_cpu.tolist() == [1, 1, 1]
    large = torch.empty(64 * MIB, dtype=torch.uint8, device="cuda")
    torch.ops.someone.work(x, large)
    assert unknown_of("someone::work").not_computed == 1


def check_unknown_indices():
    """What a kernel would have computed may be anything: out of bounds is no error then."""
    table = torch.arange(4, device="cuda")
    index = torch.full((), 99, device="cuda")
    torch.argmax(torch.empty(64 << 20, dtype=torch.uint8, device="cuda"), out=index)
    assert table[index.unsqueeze(0)].shape == (1,)
    assert unknown_of("aten::index") is not None


def check_autograd():
    torch.manual_seed(0)
    on_cpu = torch.nn.Sequential(
        torch.nn.Linear(4, 8), torch.nn.LayerNorm(8), torch.nn.GELU(), torch.nn.Linear(8, 1)
    )
    on_gpu = torch.nn.Sequential(
        torch.nn.Linear(4, 8), torch.nn.LayerNorm(8), torch.nn.GELU(), torch.nn.Linear(8, 1)
    ).cuda()
    on_gpu.load_state_dict(on_cpu.state_dict())
    inputs = torch.randn(16, 4)
    for model, data in ((on_cpu, inputs), (on_gpu, inputs.cuda())):
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
        for _ in range(3):
            optimizer.zero_grad()
            model(data).square().mean().backward()
            optimizer.step()
    for expected, actual in zip(on_cpu.parameters(), on_gpu.parameters(), strict=True):
        torch.testing.assert_close(actual.detach().cpu(), expected.detach())


def main():
    for name, check in list(globals().items()):
        if name.startswith("check_"):
            check()
            print(name.removeprefix("check_"), "ok", flush=True)


if __name__ == "__main__":
    main()

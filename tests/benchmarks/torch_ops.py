"""The figures of the bookkeeping operators: on control tensors of a virtual GPU, and on the CPU."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator

from tests.benchmarks.figure import Figure
from tests.environments import require_torch

BAR_US = 5.0
LOAD_BAR_MS = 50.0
# Processor time of the thread: what other processes do meanwhile does not count.
_PROGRAM = """
import json, os, statistics, time

os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"  # loaded by hand, to be timed
import torch
import warpserve_autoload

begin = time.thread_time_ns()
warpserve_autoload.torch()
load_ms = (time.thread_time_ns() - begin) / 1e6

def median_us(call):
    samples = []
    for _ in range(20):
        begin = time.thread_time_ns()
        for _ in range(1000):
            call()
        samples.append((time.thread_time_ns() - begin) / 1e6)
    return statistics.median(samples)

def calls(device):
    table = torch.arange(64, device=device)
    where = torch.tensor([1, 5, 9], device=device)
    values = torch.tensor([1, 2, 3], device=device)
    other, narrow = table.clone(), table.to(torch.int32)
    return {
        "index": lambda: table[where],
        "add": lambda: table + 1,
        "index_put_": lambda: table.index_put_((where,), values),
        "cat": lambda: torch.cat([table, where]),
        "copy_": lambda: table.copy_(other),
        "copy_, cast": lambda: narrow.copy_(table),
        "clone": lambda: table.clone(),
        "zeros_like": lambda: torch.zeros_like(table),
    }

torch.set_num_threads(1)
with torch.inference_mode():
    on_cpu, on_gpu = calls("cpu"), calls("cuda")
    rows = [(name, median_us(on_gpu[name]), median_us(on_cpu[name])) for name in on_cpu]
print(json.dumps([load_ms, rows]))
"""


def figures() -> Iterator[Figure]:
    """Each operator on 64 elements."""
    python = str(require_torch()[-1])
    command = ["warpserve", "run", "--quiet", "--gpu", "h100-sxm", "--", python, "-c", _PROGRAM]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    load_ms, rows = json.loads(done.stdout)
    yield Figure("loading, at the end of import torch", load_ms, "ms", LOAD_BAR_MS)
    for name, gpu_us, cpu_us in rows:
        yield Figure(f"{name}, control tensors", gpu_us, "us", BAR_US)
        yield Figure(f"{name}, tensors of the CPU", cpu_us, "us", None)

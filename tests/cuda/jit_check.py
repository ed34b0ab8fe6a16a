"""What compiles kernels at run time, on virtual GPUs; run with the environment of an engine:

warpserve run --gpu h100-sxm:2 -- /path/to/venv/bin/python tests/cuda/jit_check.py

Needs torch and Triton; FlashInfer and DeepGEMM (vLLM's copy) where they are installed. Prints a
line for each check; ends with an error at the first that fails. No compiler may start: the one that
is found in PATH ends the check.
"""

import importlib.util
import os
import tempfile
from importlib import metadata
from pathlib import Path

NO_COMPILER = Path(tempfile.mkdtemp(prefix="no-compiler-"))
for name in ("cc", "gcc", "g++", "c++", "clang", "nvcc", "ninja"):
    (NO_COMPILER / name).write_text(f"#!/bin/sh\necho {name} was started >&2; exit 1\n")
    (NO_COMPILER / name).chmod(0o755)
os.environ["PATH"] = f"{NO_COMPILER}:{os.environ['PATH']}"
os.environ["TRITON_CACHE_DIR"] = str(NO_COMPILER / "triton")
os.environ["FLASHINFER_WORKSPACE_BASE"] = str(NO_COMPILER / "flashinfer")

import checks  # noqa: E402
import torch  # noqa: E402
import triton  # noqa: E402
import triton.language as tl  # noqa: E402
from warpserve_autoload.virtual_kernels import launches  # noqa: E402


@triton.jit
def add(x, y, out, n, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    tl.store(out + at, tl.load(x + at, at < n) + tl.load(y + at, at < n), at < n)


@triton.autotune([triton.Config({"block": size}) for size in (256, 512)], key=["n"])
@triton.jit
def tuned(x, n, block: tl.constexpr):
    tl.store(x + tl.program_id(0) * block, n)


def check_triton():
    x, y, out = (torch.zeros(1000, device="cuda") for _ in range(3))
    kernel = add[lambda meta: (triton.cdiv(1000, meta["block"]),)](x, y, out, 1000, block=128)
    assert kernel.metadata.num_warps == 4
    add[(0,)](x, y, out, 1000, block=128)
    tuned[(1,)](x, 1000)
    assert tuned.best_config.kwargs == {"block": 256}
    assert launches["add"] == 1
    assert launches["tuned"] == 1
    assert triton.runtime.driver.active.get_current_target().arch == 90
    complaint = ""
    try:
        add[(1,)](x, y, 1000)
    except TypeError as error:
        complaint = str(error)
    assert "missing" in complaint


def check_triton_in_a_graph():
    x = torch.zeros(1000, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        tuned[(1,)](x, 1000)
    graph.replay()
    torch.cuda.synchronize()


def check_compile():
    assert torch.compile(lambda x: x + 1)(torch.zeros(3, device="cuda")).shape == (3,)


def check_flashinfer():
    if importlib.util.find_spec("flashinfer") is None:
        return
    import flashinfer

    tokens = flashinfer.sampling.sampling_from_probs(torch.rand(4, 100, device="cuda"))
    assert tokens.shape == (4,)
    assert launches["sampling.sampling_from_probs"] == 1


def check_flashinfer_experts():
    """Its module makes an object that has the kernels."""
    if importlib.util.find_spec("flashinfer") is None:
        return
    from flashinfer.fused_moe import cutlass_fused_moe

    bf16 = {"device": "cuda", "dtype": torch.bfloat16}
    tokens = torch.zeros(8, 64, **bf16)
    cutlass_fused_moe(
        tokens,
        torch.zeros(8, 2, device="cuda", dtype=torch.int32),
        torch.zeros(8, 2, device="cuda"),
        torch.zeros(4, 256, 64, **bf16),
        torch.zeros(4, 64, 128, **bf16),
        torch.bfloat16,
        quant_scales=[],
        output=torch.empty_like(tokens),
    )
    assert [name for name in launches if name.endswith("run_moe")]


def check_deep_gemm():
    # No part of SGLang, nor of vLLM before 0.24. That of 0.33 insists on an nvcc (limitations.md).
    if importlib.util.find_spec("vllm") is None:
        return
    if not "0.24" <= metadata.version("vllm") < "0.33":
        return
    from vllm.third_party import deep_gemm

    x, y = (torch.zeros(128, 512, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    deep_gemm.bf16_gemm_nt(x, y, torch.empty(128, 128, device="cuda", dtype=torch.bfloat16))


if __name__ == "__main__":
    checks.run(globals())

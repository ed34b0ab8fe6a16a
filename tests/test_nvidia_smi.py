"""`nvidia-smi` of a session with virtual GPUs: what engines and scripts ask it."""

from __future__ import annotations

import pytest

from tests.harness import Outcome, Warpserve


def ask(warpserve: Warpserve, *words: str) -> Outcome:
    return warpserve.run(["nvidia-smi", *words], options=["--gpu=h100-sxm:2"])


def test_what_sglang_asks(warpserve: Warpserve) -> None:
    """It sizes its KV cache by the answer."""
    asked = ask(warpserve, "--query-gpu=memory.total", "--format=csv,noheader,nounits")
    assert (asked.exit_code, asked.stdout) == (0, "81559\n81559\n")


def test_fields_have_units_and_a_header(warpserve: Warpserve) -> None:
    asked = ask(
        warpserve, "-i", "1", "--query-gpu=index,gpu_name,compute_cap,power.limit", "--format=csv"
    )
    assert asked.stdout.splitlines() == [
        "index, gpu_name, compute_cap, power.limit [W]",
        "1, NVIDIA H100 80GB HBM3, 9.0, 700.00 W",
    ]


def test_memory_in_use_is_that_of_the_session(warpserve: Warpserve) -> None:
    """By process, too."""
    program = """
import ctypes, os, subprocess
memory = ctypes.c_void_p()
runtime = ctypes.CDLL("libcudart.so.13")
assert runtime.cudaMalloc(ctypes.byref(memory), ctypes.c_size_t(1 << 30)) == 0
print(os.getpid(), flush=True)
for query in ("--query-gpu=memory.used", "--query-compute-apps=pid,used_memory"):
    subprocess.run(["nvidia-smi", query, "--format=csv,noheader,nounits"], check=True)
"""
    asked = warpserve.run(["python3", "-c", program], options=["--gpu=h100-sxm"])
    assert asked.exit_code == 0, asked.stderr
    pid, used_mib, app = asked.stdout.splitlines()
    assert int(used_mib) > 1024  # the context, too
    assert app == f"{pid}, {used_mib}"


def test_a_list_and_a_short_table(warpserve: Warpserve) -> None:
    assert ask(warpserve, "-L").stdout.startswith("GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-")
    assert "GPU 1: NVIDIA H100 80GB HBM3, 0 MiB of 81559 MiB in use" in ask(warpserve).stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["topo", "-m"], "unrecognized arguments: topo -m"),
        (["--query-gpu=foo", "--format=csv"], "no field foo, but index, "),
        (["--query-gpu=name"], "a query and --format go together"),
        (["--query-gpu=name", "--format=xml"], "no --format=xml"),
        (["-i", "7"], "there is no GPU 7"),
    ],
)
def test_what_it_does_not_know_is_an_error(
    warpserve: Warpserve, words: list[str], said: str
) -> None:
    asked = ask(warpserve, *words)
    assert asked.exit_code == 2
    assert said in asked.stderr
    assert asked.stdout == ""

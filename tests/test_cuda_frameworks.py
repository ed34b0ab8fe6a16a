"""Frameworks on the virtual GPU, each by a program of its own in tests/cuda."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.environments import cupy_python, require_torch
from tests.harness import Warpserve

PROGRAMS = Path(__file__).parent / "cuda"


def check(warpserve: Warpserve, python: Path, script: str) -> None:
    done = warpserve.run([python, PROGRAMS / script], options=["--gpu", "h100-sxm:2"], limit_s=300)
    assert done.exit_code == 0, done.stdout + done.stderr


@pytest.mark.parametrize("script", ["torch_check.py", "jit_check.py"])
def test_torch_and_what_compiles_for_it(warpserve: Warpserve, script: str) -> None:
    for python in require_torch():
        check(warpserve, python, script)


def test_cupy(warpserve: Warpserve) -> None:
    check(warpserve, cupy_python(), "cupy_check.py")

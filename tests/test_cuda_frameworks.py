"""Frameworks on the virtual GPU that are too large to install in every run of the tests.

An environment variable names the Python of an environment that has one.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.harness import Warpserve

PROGRAMS = Path(__file__).parent / "cuda"
CHECKS = {
    "torch_check.py": "WARPSERVE_TEST_TORCH",
    "jit_check.py": "WARPSERVE_TEST_TORCH",
    "cupy_check.py": "WARPSERVE_TEST_CUPY",
}


@pytest.mark.parametrize("script", CHECKS)
def test_framework(warpserve: Warpserve, script: str) -> None:
    python = os.environ.get(CHECKS[script])
    if python is None:
        pytest.skip(f"{CHECKS[script]} does not name a Python that has it")
    done = warpserve.run([python, PROGRAMS / script], options=["--gpu", "h100-sxm:2"])
    assert done.exit_code == 0, done.stdout + done.stderr

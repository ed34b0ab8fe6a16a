"""Torch's operators on control memory: see tests/torch, which runs in an engine's environment."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.environments import require_torch, torch_pythons
from tests.harness import Outcome, Warpserve
from warpserve.cuda_shim.torch_ops.build import Torch, library, prepare
from warpserve.errors import InstallationError

PROGRAMS = Path(__file__).parent / "torch"
BOOKKEEPING = """
    __getitem__ add arange argmax argsort bincount bitwise_and cat clamp clone cumsum eq fill
    floor_divide full full_like gather ge index_add index_copy index_fill index_put index_select
    isin logical_and logical_not masked_fill masked_scatter masked_select max min mul ne nonzero
    ones_like remainder repeat repeat_interleave roll scatter scatter_add searchsorted sort stack
    sub sum take to topk tril unique unique_consecutive where zero_ zeros zeros_like
"""


@pytest.fixture(params=torch_pythons() or [Path()], ids=str)
def each_python(request: pytest.FixtureRequest) -> Path:
    """The interpreter of each torch."""
    require_torch()
    return Path(request.param)


@pytest.fixture
def python() -> Path:
    """The interpreter of some torch."""
    return require_torch()[-1]


def run(warpserve: Warpserve, python: Path, *command: str | Path, gpus: int = 1) -> Outcome:
    return warpserve.run([python, *command], options=["--gpu", f"h100-sxm:{gpus}"], limit_s=600.0)


def test_what_a_user_tries_first(warpserve: Warpserve, python: Path) -> None:
    program = "import torch; print((torch.arange(5, device='cuda') * 2).tolist())"
    done = run(warpserve, python, "-c", program)
    assert done.stdout == "[0, 2, 4, 6, 8]\n", done.stderr


def test_behaviour(warpserve: Warpserve, each_python: Path) -> None:
    done = run(warpserve, each_python, PROGRAMS / "torch_ops_behaviour.py", gpus=2)
    assert done.exit_code == 0, done.stdout + done.stderr


def test_bookkeeping_gives_what_the_cpu_gives(warpserve: Warpserve, each_python: Path) -> None:
    program = PROGRAMS / "torch_ops_check.py"
    done = run(warpserve, each_python, program, "--samples", "2", *BOOKKEEPING.split())
    assert done.exit_code == 0, done.stdout + done.stderr
    assert ", 0 not, " in done.stdout


def test_what_is_unknown_is_said_at_the_end(warpserve: Warpserve, python: Path) -> None:
    program = (
        "import torch; weights = torch.empty(64 << 20, dtype=torch.uint8, device='cuda'); "
        "weights.max(); weights.min()"
    )
    done = run(warpserve, python, "-c", program)
    assert "aten::max (read compute memory 1x)" in done.stderr
    assert "aten::min (read compute memory 1x)" in done.stderr


def test_the_users_own_pythonpath_counts(
    warpserve: Warpserve, python: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "of_the_user.py").write_text("answer = 42\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    done = run(warpserve, python, "-c", "import of_the_user; print(of_the_user.answer)")
    assert done.stdout == "42\n", done.stderr


def test_a_python_that_does_not_load_it_says_so(warpserve: Warpserve, python: Path) -> None:
    done = run(warpserve, python, "-I", "-c", "import torch; torch.ones(3, device='cuda')")
    assert "torch runs without the operators" in done.stderr
    assert done.stderr.count("torch runs without") == 1


# Building: with an installed torch that is not one, so that no engine is needed

FakeTorch = Callable[..., Path]


@pytest.fixture
def fake_torch(tmp_path: Path) -> FakeTorch:
    """Makes an environment; returns its interpreter."""

    def make(*, headers: bool = True) -> Path:
        torch = tmp_path / "env/lib/python3.11/site-packages/torch"
        (torch / "lib").mkdir(parents=True)
        (torch / "version.py").write_text("__version__ = '2.99.0+cu130'\ncuda = '13.0'\n")
        (torch / "lib" / "libc10.so").write_bytes(b"std::__cxx11::basic_string")
        if headers:
            (torch / "include/ATen/core").mkdir(parents=True)
            (torch / "include/ATen/core/Tensor.h").touch()
        (tmp_path / "env/bin").mkdir()
        (tmp_path / "env/bin/python").symlink_to(sys.executable)
        return tmp_path / "env/bin/python"

    return make


def test_a_failed_build_names_its_log(fake_torch: FakeTorch, tmp_path: Path) -> None:
    with pytest.raises(InstallationError, match=r"see (\S+build\.log)") as raised:
        prepare(fake_torch(), tmp_path)
    log = Path(str(raised.value).rpartition(" ")[2])
    assert "Dispatcher.h" in log.read_text()
    assert list(tmp_path.rglob("*.so")) == [
        tmp_path / "env/lib/python3.11/site-packages/torch/lib/libc10.so"
    ]


def test_without_a_compiler(
    fake_torch: FakeTorch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InstallationError, match=r"apt-get install g\+\+"):
        prepare(fake_torch(), tmp_path)


def test_without_headers(fake_torch: FakeTorch, tmp_path: Path) -> None:
    with pytest.raises(InstallationError, match="no C\\+\\+ headers"):
        prepare(fake_torch(headers=False), tmp_path)


def test_each_torch_has_its_own(fake_torch: FakeTorch, tmp_path: Path) -> None:
    """A library that is there is used: it is found by version, ABI, and all sources."""
    torch = Torch.of(fake_torch())
    assert torch is not None
    with pytest.raises(InstallationError):
        library(torch, tmp_path)
    (folder,) = (tmp_path / "torch_ops").iterdir()
    assert folder.name.startswith("torch-2.99.0+cu130-cuda-13.0-cxx11-")
    made = folder / "libwarpserve_torch_ops.so"
    made.touch()
    assert library(torch, tmp_path) == made
    (torch.folder / "version.py").write_text("__version__ = '2.99.1+cu130'\ncuda = '13.0'\n")
    other = Torch.at(torch.folder)
    assert other is not None
    with pytest.raises(InstallationError):
        library(other, tmp_path)


def test_a_torch_for_the_cpu_needs_none(fake_torch: FakeTorch, tmp_path: Path) -> None:
    python = fake_torch()
    packages = python.parents[1] / "lib/python3.11/site-packages"
    (packages / "torch/version.py").write_text("__version__ = '2.99.0+cpu'\ncuda = None\n")
    assert prepare(python, tmp_path) is None


def test_torch_must_be_let_load_it(
    warpserve: Warpserve, fake_torch: FakeTorch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")
    done = run(warpserve, fake_torch(), "-c", "print('ran')")
    assert done.exit_code == 2
    assert "TORCH_DEVICE_BACKEND_AUTOLOAD=0" in done.stderr
    assert done.stdout == ""


def test_a_torch_for_another_cuda_is_told_what_to_set(warpserve: Warpserve, python: Path) -> None:
    """A shell script does not say what it starts. Who uses no GPU is not disturbed."""
    torch = Torch.of(python)
    assert torch is not None
    own = torch.cuda.partition(".")[0]
    other = {"12": "13", "13": "12"}[own]
    program = "import torch; print(torch.ones(2).sum().item(), flush=True); torch.ones(1).cuda()"
    outcome = warpserve.run(
        ["sh", "-c", f"{python} -c '{program}'"],
        options=["--gpu", "h100-sxm:1"],
        env={"WARPSERVE_CUDA": other},
    )
    assert outcome.stdout == "2.0\n"
    assert outcome.exit_code != 0
    assert f"set WARPSERVE_CUDA={own}" in outcome.stderr

"""Triton on the virtual GPU: kernels are not compiled, nor is the C code that launches them.

All else is Triton's own: how arguments are bound and specialised, its caches, hooks and grids.
Known to work with 3.6 and 3.8, and with TokenSpeed's fork 3.9.
"""

from __future__ import annotations

import ctypes
import importlib
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

from warpserve.patches.imported import after_import
from warpserve_autoload.virtual_kernels import launch, replace

_REGISTERS = 32
_MAX_THREADS = 1024
_PROPERTIES = {
    "max_shared_mem": 97,
    "max_num_regs": 12,
    "multiprocessor_count": 16,
    "warpSize": 10,
    "sm_clock_rate": 13,
    "mem_clock_rate": 36,
    "mem_bus_width": 37,
}
"""What Triton asks of a device, as numbers of ``CUdevice_attribute``."""


def load() -> None:
    """Patches Triton, and its fork of another name, when they are imported."""
    for package in ("triton", "tokenspeed_triton"):
        after_import(package, patch)


def patch(package: ModuleType) -> None:
    """Raises MissingSymbolError where this is another Triton than those known."""

    def module(name: str) -> ModuleType:
        return importlib.import_module(f"{package.__name__}.{name}")

    driver, compiler = module("backends.nvidia.driver"), module("compiler.compiler")
    replace(driver, "CudaUtils", VirtualUtils)
    compile = virtual_compile(compiler)
    for owner in (compiler, module("compiler"), package):
        replace(owner, "compile", compile)
    autotuner = module("runtime.autotuner")
    # Equal times: the first configuration is the best.
    replace(autotuner, "Autotuner._bench", lambda *_, **__: [0.0, 0.0, 0.0])
    replace(autotuner, "Autotuner.check_disk_cache", _tune_without_disk)


class VirtualUtils:
    """In place of Triton's C module about devices and binaries."""

    def get_device_properties(self, device: int) -> dict[str, int]:
        return {name: _attribute(number, device) for name, number in _PROPERTIES.items()}

    def load_binary(self, *_: object) -> tuple[int, int, int, int, int]:
        """Module, function, registers, spills, threads a block."""
        return 0, 0, _REGISTERS, 0, _MAX_THREADS

    def unload_module(self, module: int) -> None:
        """Of newer Triton. None was loaded."""

    def cuOccupancyMaxActiveClusters(self, *_: object) -> int:  # noqa: N802
        return _attribute(_PROPERTIES["multiprocessor_count"], 0)

    def set_printf_fifo_size(self, size: int) -> None:
        """Kernels print nothing."""

    def fill_tma_descriptor(self, *_: object) -> None:
        """A descriptor is for kernels."""


def virtual_compile(compiler: ModuleType) -> Callable[..., Any]:
    """``triton.compile`` for a ``triton.compiler.compiler``: gives kernels that do nothing."""

    class VirtualKernel(compiler.CompiledKernel):  # type: ignore[misc, name-defined]
        def __init__(self, src: Any, target: Any, backend: Any, options: dict[str, Any]) -> None:
            self.src = src
            self.name = src.name
            self.hash = f"virtual-{self.name}"
            self.metadata = SimpleNamespace(
                **options, name=src.name, target=target, hash=self.hash, **_RESOURCES
            )
            self.packed_metadata = backend.pack_metadata(self.metadata)
            self.asm: dict[str, bytes | str] = {backend.binary_ext: b""}
            self.kernel = b""
            self.metadata_group: dict[str, str] = {}
            self.module, self.function = 0, 0
            self.n_regs, self.n_spills, self.n_max_threads = _REGISTERS, 0, _MAX_THREADS

        def _init_handles(self) -> None:
            """They are there from the start."""

        @property
        def run(self) -> Callable[..., None]:
            return self._launch

        def _launch(
            self,
            grid_0: int,
            grid_1: int,
            grid_2: int,
            stream: int,
            _function: int,
            _packed: object,
            metadata: Any,
            enter_hook: Callable[[Any], None] | None,
            exit_hook: Callable[[Any], None] | None,
            *_arguments: object,
        ) -> None:
            if grid_0 * grid_1 * grid_2 == 0:
                return
            if enter_hook is not None:
                enter_hook(metadata)
            launch(self.name, stream)
            if exit_hook is not None:
                exit_hook(metadata)

    def compile(
        src: Any,
        target: Any = None,
        options: dict[str, Any] | None = None,
        _env_vars: object = None,
    ) -> VirtualKernel:
        if not isinstance(src, compiler.ASTSource):
            raise RuntimeError(
                f"warpserve: {src}: the virtual GPU has kernels of Triton's language, not of its "
                "intermediate ones"
            )
        target = target or compiler.driver.active.get_current_target()
        backend = compiler.make_backend(target)
        parsed = backend.parse_options({**(options or {}), **src.parse_options()})
        return VirtualKernel(src, target, backend, vars(parsed))

    return compile


_RESOURCES: dict[str, Any] = {
    "shared": 0,
    "tmem_size": 0,
    "global_scratch_size": 0,
    "global_scratch_align": 1,
    "profile_scratch_size": 0,
    "profile_scratch_align": 1,
    "tensordesc_meta": None,
}


def _tune_without_disk(
    _tuner: object, _key: object, _configs: object, tune: Callable[[], None]
) -> bool:
    """The times on disk are real ones, and ours are none. Returns whether any were used."""
    tune()
    return False


def _attribute(number: int, device: int) -> int:
    value = ctypes.c_int()
    code = ctypes.CDLL("libcuda.so.1").cuDeviceGetAttribute(ctypes.byref(value), number, device)
    if code != 0:
        raise RuntimeError(f"attribute {number} of device {device}: CUDA error {code}")
    return value.value

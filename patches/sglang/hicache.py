"""HiCache: KV pages in the host's memory, which nobody touches, and copies that take their time.

A copy is work on the stream that SGLang copies on, as long as its bytes take over the GPU's link to
the host: its own kernel for it would read one and write the other side, whose contents do not
exist. Its storage tiers get pages of the right size with nothing in them.
"""

from __future__ import annotations

from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

from warpserve.patches.stand_in import StandIn
from warpserve.patches.versions import require_attributes
from warpserve.patches.virtual_gpu import enqueue
from warpserve.predictors.hardware import hardware_of_session

_OF_ALL_POOLS = ("backup_from_device_all_layer_physical", "load_to_device_per_layer_physical")
_OF_ONE_POOL = ("backup_from_device_all_layer", "load_to_device_per_layer")

_ENOUGH_BYTES = 1 << 50
"""Of host memory: the virtual GPUs' host has what HiCache is asked to take."""


def copy_in_time(module: ModuleType) -> None:
    """``module``: sglang.srt.mem_cache.pool_host.base. Raises RuntimeError where it lacks a
    symbol.
    """
    require_attributes(module, ("HostKVCache",))
    pool_class = module.HostKVCache
    if _copies_itself(pool_class):
        _replace_copies(pool_class, _OF_ALL_POOLS)


def have_memory(module: ModuleType) -> None:
    """``module``: sglang.srt.mem_cache.host_memory. Raises RuntimeError where it lacks a symbol."""
    require_attributes(module, ("available_host_memory_bytes",))
    vars(module)["available_host_memory_bytes"] = lambda **_: _ENOUGH_BYTES


def find_memory(module: ModuleType) -> None:
    """``module``: sglang.srt.mem_cache.pool_host.base, which asks the host itself where SGLang has
    no module for that.
    """
    if hasattr(module, "psutil"):
        enough = SimpleNamespace(available=_ENOUGH_BYTES)
        vars(module)["psutil"] = StandIn(module.psutil, virtual_memory=lambda: enough)


def allocate_without_touching(module: ModuleType) -> None:
    """``module``: sglang.srt.mem_cache.pool_host.common. Raises RuntimeError where it lacks a
    symbol.
    """
    require_attributes(module, ("ALLOC_MEMORY_FUNCS", "torch"))
    registered = getattr(module, "_CUDA_HOST_REGISTERED_RANGES_ATTR", None)

    def allocate(dims: Any, dtype: Any, device: str, pin_memory: bool, **_options: Any) -> Any:
        buffer = module.torch.empty(dims, dtype=dtype, device=device, pin_memory=pin_memory)
        if registered is not None:
            setattr(buffer, registered, [])  # none to unregister
        return buffer

    module.ALLOC_MEMORY_FUNCS["cuda"] = allocate


def store_nothing(module: ModuleType) -> None:
    """``module``: sglang.srt.mem_cache.pool_host.mha or mla, or memory_pool_host with both.

    Raises RuntimeError where its pools lack a symbol.
    """
    names = ("get_data_page", "get_dummy_flat_data_page", "set_from_flat_data_page")
    pools: list[Any] = [
        kind
        for name, kind in vars(module).items()
        if name.endswith("PoolHost") and kind.__module__ == module.__name__
    ]
    for pool_class in pools:
        require_attributes(pool_class, names)
        if not _copies_itself(pool_class):
            _replace_copies(pool_class, _OF_ONE_POOL)
        pool_class.get_data_page = lambda self, *_, **__: Page(self.size_per_token * self.page_size)
        pool_class.get_dummy_flat_data_page = _scratch
        pool_class.set_from_flat_data_page = lambda *_: None


def know_when_loaded(module: ModuleType) -> None:
    """``module``: sglang.srt.managers.cache_controller.

    Raises RuntimeError where it lacks a symbol. Events without timing do not tell their instant.
    """
    require_attributes(module, ("LayerLoadingEvent", "device_module"))
    event_class = module.LayerLoadingEvent
    make = event_class.__init__

    def make_with_timing(self: Any, num_layers: int) -> None:
        make(self, num_layers)
        require_attributes(self, ("load_events",))
        self.load_events = [
            module.device_module.Event(enable_timing=True) for _ in range(num_layers)
        ]

    event_class.__init__ = make_with_timing


class Page:
    """What a storage tier is given in place of a tensor: a size. Its file has no blocks."""

    def __init__(self, bytes_: int) -> None:
        self._bytes = bytes_

    def numel(self) -> int:
        return self._bytes

    def element_size(self) -> int:
        return 1

    def contiguous(self) -> Page:
        return self

    def view(self, *_arguments: Any, **_options: Any) -> Page:
        return self

    def numpy(self) -> Page:
        return self

    def tofile(self, path: str) -> None:
        with Path(path).open("wb") as file:
            file.truncate(self._bytes)


def _copies_itself(pool_class: Any) -> bool:
    """Whether SGLang has one way to copy for all kinds of pools, and not one of each."""
    return hasattr(pool_class, _OF_ALL_POOLS[0])


def _replace_copies(pool_class: Any, names: tuple[str, str]) -> None:
    require_attributes(pool_class, names)
    for name, copy in zip(names, (_back_up, _load), strict=True):
        setattr(pool_class, name, copy)


def _back_up(self: Any, _pool: Any, host_indices: Any, *_arguments: Any, **_options: Any) -> None:
    _copy(len(host_indices) * self.size_per_token)


def _load(self: Any, _pool: Any, host_indices: Any, *_arguments: Any, **_options: Any) -> None:
    _copy(len(host_indices) * self.size_per_token // self.layer_num)


def _scratch(self: Any) -> Any:
    """Where a storage tier reads a page to: the same for all, as no contents are kept."""
    import torch

    if not hasattr(self, "virtual_scratch"):
        self.virtual_scratch = torch.zeros(self.size_per_token * self.page_size, dtype=torch.uint8)
    return self.virtual_scratch


def _copy(bytes_: int) -> None:
    import torch

    bandwidth = hardware_of_session().host_bandwidth_bytes_per_s
    duration_ns = -(-bytes_ * 1_000_000_000 // int(bandwidth))
    enqueue(torch.cuda.current_stream().cuda_stream, duration_ns, "a copy of HiCache's")

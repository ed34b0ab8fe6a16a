"""Tensors on the device in which SGLang keeps its own data: which pages are free, and whose they
are.

They are control memory, whatever their size, so that torch's operators on them are computed; and
Triton's kernels, which are not, give way to what SGLang has for devices without Triton.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from types import ModuleType
from typing import Any

from warpserve.patches.sglang.paging import page_without_kernels
from warpserve.patches.stand_in import StandIn
from warpserve.patches.versions import require_attributes


def keep_request_table(module: ModuleType) -> None:
    """``module``: sglang.srt.mem_cache.memory_pool. Raises RuntimeError where it lacks a symbol."""
    _keep_table(module, "ReqToTokenPool")


def keep_request_table_of_decode(module: ModuleType) -> None:
    """``module``: sglang.srt.disaggregation.decode. Raises RuntimeError where it lacks a symbol."""
    _keep_table(module, "DecodeReqToTokenPool")


def _keep_table(module: ModuleType, pool: str) -> None:
    """It has several 100 MB, of which few rows are touched: its zeros are those of fresh memory."""
    require_attributes(module, (pool, "torch"))
    pool_class, torch = getattr(module, pool), module.torch
    make = pool_class.__init__

    def make_table(self: Any, *arguments: Any, **options: Any) -> None:
        from warpserve_autoload.torch_ops import control_memory

        vars(module)["torch"] = StandIn(torch, zeros=_zeros_of_fresh_memory(torch))
        try:
            with control_memory():
                make(self, *arguments, **options)
        finally:
            vars(module)["torch"] = torch

    pool_class.__init__ = make_table


def keep_allocators(module: ModuleType) -> None:
    """``module``: sglang.srt.mem_cache.allocator.base. Raises RuntimeError where it lacks a symbol.

    Each kind of allocator makes its tables when it is made.
    """
    require_attributes(module, ("BaseTokenToKVPoolAllocator",))
    base_class = module.BaseTokenToKVPoolAllocator
    metaclass = type(base_class)
    call = metaclass.__call__

    def make_in_control_memory(cls: Any, *arguments: Any, **options: Any) -> Any:
        if not issubclass(cls, base_class):
            return call(cls, *arguments, **options)
        from warpserve_autoload.torch_ops import control_memory

        with control_memory():
            return call(cls, *arguments, **options)

    base_class.__class__ = type(
        metaclass.__name__, (metaclass,), {"__call__": make_in_control_memory}
    )


def write_with_torch(module: ModuleType) -> None:
    """``module``: sglang.srt.mem_cache.allocation, or common.

    Raises RuntimeError where it lacks a symbol.
    """
    require_attributes(module, ("support_triton", "get_last_loc", "get_last_loc_torch"))
    vars(module).update(
        support_triton=lambda _backend: False, get_last_loc=module.get_last_loc_torch
    )


def assign_with_torch(module: ModuleType) -> None:
    """``module``: sglang.srt.mem_cache.allocation, or sglang.srt.speculative.triton_ops.cache_locs.

    Raises RuntimeError where it lacks a symbol.
    """
    require_attributes(module, ("assign_req_to_token_pool_func",))
    vars(module)["assign_req_to_token_pool_func"] = _assign


def _assign(
    req_pool_indices: Any,
    req_to_token: Any,
    start_offset: Any,
    end_offset: Any,
    out_cache_loc: Any,
    batch_size: int,
) -> None:
    """As the kernel: to each request, from its start to its end, the next of the places."""
    from warpserve.patches.sglang.control import on_host

    rows, starts, ends = map(on_host, (req_pool_indices, start_offset, end_offset))
    begin = 0
    for row, start, end in list(zip(rows, starts, ends, strict=True))[:batch_size]:
        places = out_cache_loc[begin : begin + end - start]
        req_to_token[row, start:end] = places.to(req_to_token.dtype)
        begin += end - start


def order_accesses(module: ModuleType) -> None:
    """``module``: sglang.srt.mem_cache.radix_cache or hiradix_cache.

    Raises RuntimeError where it lacks a symbol.

    What was used least recently is evicted first, by the clock: of what is used at one instant of
    virtual time, the order counts, too.
    """
    require_attributes(module, ("time",))
    vars(module)["time"] = StandIn(module.time, monotonic=_rising(module.time.monotonic))


def free_windows_with_torch(module: ModuleType) -> None:
    """``module``: sglang.srt.mem_cache.allocator.swa.

    Raises RuntimeError where it lacks a symbol.
    """
    require_attributes(module, ("SWATokenToKVPoolAllocator",))
    if hasattr(module.SWATokenToKVPoolAllocator, "_expand_to_full_pages"):
        return  # it has no kernel for them
    require_attributes(module, ("get_and_clear_swa_pages",))
    vars(module)["get_and_clear_swa_pages"] = _windows_of


def _windows_of(
    full_page_representatives: Any, mapping: Any, page_size: int, check_page_mappings: bool = False
) -> tuple[Any, Any, None]:
    """As the kernel: the pages of windows that belong to full ones, and no longer do."""
    import torch

    if check_page_mappings:
        raise NotImplementedError("warpserve: SGLang's checks of page mappings (debug mode)")
    full = full_page_representatives.to(torch.int64)
    windows = mapping[full]
    slots = torch.arange(page_size, device=full.device)
    pages = full.div(page_size, rounding_mode="floor") * page_size
    mapping.index_fill_(0, (pages[:, None] + slots).flatten(), 0)
    return windows.div(page_size, rounding_mode="floor"), windows > 0, None


def page_with_torch(module: ModuleType) -> None:
    """``module``: sglang.srt.mem_cache.allocator.paged.

    Raises RuntimeError where it lacks a symbol.
    """
    require_attributes(module, ("PagedTokenToKVPoolAllocator", "alloc_extend_naive"))
    if not hasattr(module, "alloc_decode_naive"):
        page_without_kernels(module)
        return
    allocator_class = module.PagedTokenToKVPoolAllocator
    make = allocator_class.__init__

    def make_without_triton(self: Any, *arguments: Any, **options: Any) -> None:
        make(self, *arguments, **options)
        require_attributes(self, ("use_triton_kernels",))
        self.use_triton_kernels = False

    allocator_class.__init__ = make_without_triton


@cache
def _rising(clock_s: Callable[[], float]) -> Callable[[], float]:
    """A clock of which no two reads are equal, whoever reads it."""
    last_s = 0.0

    def read() -> float:
        nonlocal last_s
        last_s = max(clock_s(), math.nextafter(last_s, math.inf))
        return last_s

    return read


def _zeros_of_fresh_memory(torch: Any) -> Any:
    def zeros(*arguments: Any, device: Any = None, **options: Any) -> Any:
        is_on_host = device is None or torch.device(device).type == "cpu"
        make = torch.zeros if is_on_host else torch.empty
        return make(*arguments, device=device, **options)

    return zeros

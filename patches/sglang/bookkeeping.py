"""Tensors on the device in which SGLang keeps its own data: which pages are free, and whose they
are.

They are control memory, whatever their size, so that torch's operators on them are computed; and
Triton's kernels, which are not, give way to what SGLang has for devices without Triton.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from warpserve.patches.stand_in import StandIn
from warpserve.patches.versions import require_attributes


def keep_request_table(module: ModuleType) -> None:
    """``module``: sglang.srt.mem_cache.memory_pool. Raises RuntimeError where it lacks a symbol.

    A table of several 100 MB, of which few rows are touched: its zeros are those of fresh memory.
    """
    require_attributes(module, ("ReqToTokenPool", "torch"))
    pool_class, torch = module.ReqToTokenPool, module.torch
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
    """``module``: sglang.srt.mem_cache.allocation. Raises RuntimeError where it lacks a symbol."""
    names = (
        "support_triton",
        "get_last_loc",
        "get_last_loc_torch",
        "assign_req_to_token_pool_func",
    )
    require_attributes(module, names)
    vars(module).update(
        support_triton=lambda _backend: False,
        get_last_loc=module.get_last_loc_torch,
        assign_req_to_token_pool_func=_assign,
    )


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


def page_with_torch(module: ModuleType) -> None:
    """``module``: sglang.srt.mem_cache.allocator.paged.

    Raises RuntimeError where it lacks a symbol.
    """
    require_attributes(module, ("PagedTokenToKVPoolAllocator", "alloc_extend_naive"))
    allocator_class = module.PagedTokenToKVPoolAllocator
    make = allocator_class.__init__

    def make_without_triton(self: Any, *arguments: Any, **options: Any) -> None:
        make(self, *arguments, **options)
        require_attributes(self, ("use_triton_kernels",))
        self.use_triton_kernels = False

    allocator_class.__init__ = make_without_triton


def _zeros_of_fresh_memory(torch: Any) -> Any:
    def zeros(*arguments: Any, device: Any = None, **options: Any) -> Any:
        is_on_host = device is None or torch.device(device).type == "cpu"
        make = torch.zeros if is_on_host else torch.empty
        return make(*arguments, device=device, **options)

    return zeros

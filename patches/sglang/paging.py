"""Pages of an SGLang whose paged allocator has Triton's kernels alone (0.5.14)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from warpserve.patches.versions import require_attributes


def page_without_kernels(module: ModuleType) -> None:
    """``module``: sglang.srt.mem_cache.allocator.paged.

    Raises RuntimeError where it lacks a symbol.
    """
    require_attributes(module, ("alloc_extend_kernel", "alloc_decode_kernel"))
    vars(module).update(
        alloc_extend_kernel=_Launched(_extend), alloc_decode_kernel=_Launched(_decode)
    )


class _Launched:
    """Called as a kernel of Triton's is: with a grid in brackets first."""

    def __init__(self, function: Callable[..., None]) -> None:
        self._function = function

    def __getitem__(self, _grid: Any) -> Callable[..., None]:
        return self._function


def _extend(
    prefix_lens: Any,
    seq_lens: Any,
    last_loc: Any,
    free_pages: Any,
    out_indices: Any,
    _upper: int,
    page_size: int,
) -> None:
    """As the kernel: to each request the rest of its last page, then pages of its own."""
    from warpserve.patches.sglang.control import on_host

    begins, ends, lasts = map(on_host, (prefix_lens, seq_lens, last_loc))
    _write(out_indices, free_pages, begins, ends, lasts, page_size)


def _decode(
    seq_lens: Any,
    last_loc: Any,
    free_pages: Any,
    out_indices: Any,
    _upper: int,
    page_size: int,
) -> None:
    """As the kernel: one place more for each request."""
    from warpserve.patches.sglang.control import on_host

    ends = on_host(seq_lens)
    _write(out_indices, free_pages, [end - 1 for end in ends], ends, on_host(last_loc), page_size)


def _write(
    out_indices: Any,
    free_pages: Any,
    begins: Sequence[int],
    ends: Sequence[int],
    lasts: Sequence[int],
    page_size: int,
) -> None:
    import torch

    from warpserve.patches.sglang.control import on_device, on_host

    wanted = sum(
        -(-end // page_size) + -begin // page_size for begin, end in zip(begins, ends, strict=True)
    )
    if wanted > len(free_pages):
        return  # the allocator says so, too, and nobody reads the places
    found = places(begins, ends, lasts, on_host(free_pages[:wanted]), page_size)
    written = torch.tensor(found, dtype=out_indices.dtype)
    on_gpu = out_indices.device.type != "cpu"
    out_indices.copy_(on_device(written, out_indices.device) if on_gpu else written)


def places(
    begins: Sequence[int],
    ends: Sequence[int],
    lasts: Sequence[int],
    free_pages: Sequence[int],
    page_size: int,
) -> list[int]:
    """Where the tokens of each request from its begin to its end go, one request after the other.

    ``lasts``: where the token before the begin is; pages are taken in the order of ``free_pages``.
    """
    pages = iter(free_pages)
    found: list[int] = []
    for begin, end, last in zip(begins, ends, lasts, strict=True):
        place = last + 1
        for position in range(begin, end):
            if position % page_size == 0:
                place = next(pages) * page_size
            found.append(place)
            place += 1
    return found

"""Process groups of one rank, which need no transport.

A group of gloo polls its sockets a hundred times a second, and one of NCCL looks for errors ten
times; both would be an advance of virtual time each, for a group in which nobody ever sends.
PyTorch's own "fake" backend is right for one rank: what it would receive is what it sends.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

_FAKE = "fake"


def without_transport(distributed: ModuleType) -> None:
    """``distributed``: torch.distributed, whose groups of one rank get the fake backend."""
    import torch.testing._internal.distributed.fake_pg  # noqa: F401  registers it

    init_process_group = distributed.init_process_group
    new_group = distributed.new_group

    def init(backend: Any = None, *arguments: Any, **options: Any) -> Any:
        if options.get("world_size") == 1:
            backend = _FAKE
        return init_process_group(backend, *arguments, **options)

    def group(ranks: Any = None, *arguments: Any, **options: Any) -> Any:
        count = distributed.get_world_size() if ranks is None else len(ranks)
        if count == 1:
            options["backend"] = _FAKE
        return new_group(ranks, *arguments, **options)

    vars(distributed).update(init_process_group=init, new_group=group)

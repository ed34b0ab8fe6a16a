"""Process groups without transport: those of one rank, and those whose other ranks are ghosts.

A group of gloo polls its sockets, and one of NCCL looks for errors, some times a second; each would
be an advance of virtual time, for a group in which nobody ever sends. PyTorch's own "fake" backend
is right there: what it would receive is what it sends.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

_FAKE = "fake"
_ON_GPU = "nccl"


def without_transport(distributed: ModuleType, are_ghosts: Callable[[], bool]) -> None:
    """``distributed``: torch.distributed.

    Groups of one rank get the fake backend. Where the other ranks are ghosts, so do all on the CPU;
    NCCL's are theirs, too, and meet in a store of this process alone.
    """
    import torch.testing._internal.distributed.fake_pg  # noqa: F401  registers it

    init_process_group = distributed.init_process_group
    new_group = distributed.new_group

    def init(backend: Any = None, *arguments: Any, **options: Any) -> Any:
        if are_ghosts() and options.get("world_size") != 1:
            options.pop("init_method", None)
            options["store"] = distributed.HashStore()
        if options.get("world_size") == 1 or (are_ghosts() and backend != _ON_GPU):
            backend = _FAKE
        return init_process_group(backend, *arguments, **options)

    def group(ranks: Any = None, *arguments: Any, **options: Any) -> Any:
        count = distributed.get_world_size() if ranks is None else len(ranks)
        if count == 1 or (are_ghosts() and options.get("backend") != _ON_GPU):
            options["backend"] = _FAKE
        return new_group(ranks, *arguments, **options)

    monitored_barrier = distributed.monitored_barrier

    def barrier(group: Any = None, *arguments: Any, **options: Any) -> None:
        """Which only gloo has."""
        if distributed.get_backend(group) != _FAKE:
            monitored_barrier(group, *arguments, **options)

    vars(distributed).update(init_process_group=init, new_group=group, monitored_barrier=barrier)

"""Ghost ranks: one worker stands for its tensor-parallel group, as all do the same control work.

Its groups have all their ranks in name: NCCL's are those of the virtual one, with the memory and
the time of all; what ranks would tell each other on the CPU is what this one says (lone_groups.py).
"""

from __future__ import annotations

import os
from types import ModuleType
from typing import Any

from warpserve.patches.versions import require_attributes

SESSION_GHOSTS = "WARPSERVE_GHOSTS"
"""For the session's members: "0" where the user wants a process for each rank."""

_NCCL_GHOSTS = "WARPSERVE_GHOST_RANKS"


def are_wanted() -> bool:
    return os.environ.get(SESSION_GHOSTS) != "0"


def are_ghosts() -> bool:
    """Whether the other ranks of this process' groups exist in name only."""
    return os.environ.get(_NCCL_GHOSTS) == "1"


def make_ghosts() -> None:
    """Of the other ranks of this process' groups, and of those that it starts from now on."""
    os.environ[_NCCL_GHOSTS] = "1"


def said_of(ranks: int) -> str:
    """For the engine's log."""
    return f"warpserve: one worker stands for all {ranks} ranks (--no-ghost-ranks runs them all)"


def say_same_node(module: ModuleType) -> None:
    """``module``: an engine's parallel_state, which asks through memory that ranks share.

    Raises RuntimeError where it lacks a symbol.
    """
    require_attributes(module, ("in_the_same_node_as", "torch"))
    in_the_same_node_as = module.in_the_same_node_as

    def all_are(group: Any, source_rank: int = 0) -> list[bool]:
        if are_ghosts() and module.torch.distributed.get_world_size(group) > 1:
            return [True] * module.torch.distributed.get_world_size(group)
        return list(in_the_same_node_as(group, source_rank))

    vars(module)["in_the_same_node_as"] = all_are


def without_queues(module: ModuleType) -> None:
    """``module``: an engine's shm_broadcast. Ghosts read no queue.

    Raises RuntimeError where it lacks a symbol.
    """
    require_attributes(module, ("MessageQueue",))
    create = module.MessageQueue.create_from_process_group

    def create_for_processes(*arguments: Any, **options: Any) -> Any:
        return None if are_ghosts() else create(*arguments, **options)

    module.MessageQueue.create_from_process_group = staticmethod(create_for_processes)

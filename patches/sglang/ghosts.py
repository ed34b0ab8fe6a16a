"""Ghost ranks of SGLang: of a tensor-parallel group only the first scheduler is started."""

from __future__ import annotations

import logging
from types import ModuleType
from typing import Any

from warpserve.patches.ghosts import are_ghosts, are_wanted, make_ghosts, said_of
from warpserve.patches.versions import require_attributes


def launch_one(module: ModuleType) -> None:
    """``module``: sglang.srt.entrypoints.engine. Raises RuntimeError where it lacks a symbol."""
    require_attributes(module, ("Engine", "_calculate_rank_ranges"))
    engine_class = module.Engine
    require_attributes(engine_class, ("_launch_scheduler_processes",))
    launch = engine_class._launch_scheduler_processes.__func__
    ranges_of = module._calculate_rank_ranges

    def launch_with_ghosts(cls: Any, server_args: Any, *arguments: Any, **options: Any) -> Any:
        if _is_safe(server_args):
            make_ghosts()
            logging.getLogger(module.__name__).info(said_of(server_args.tp_size))
        return launch(cls, server_args, *arguments, **options)

    def first_of_ranges(*arguments: Any, **options: Any) -> tuple[range, range, int, int]:
        stages, ranks, stages_a_node, ranks_a_node = ranges_of(*arguments, **options)
        return stages, ranks[:1] if are_ghosts() else ranks, stages_a_node, ranks_a_node

    engine_class._launch_scheduler_processes = classmethod(launch_with_ghosts)
    vars(module)["_calculate_rank_ranges"] = first_of_ranges


def _is_safe(arguments: Any) -> bool:
    """All ranks are of one tensor-parallel group on this host, and nobody else looks at them.

    ``arguments``: ServerArgs.
    """
    return (
        are_wanted()
        and arguments.tp_size > 1
        and arguments.pp_size == 1
        and arguments.dp_size == 1
        and arguments.nnodes == 1
        and not arguments.enable_dp_attention
        and not arguments.enable_hierarchical_cache
        and arguments.moe_a2a_backend == "none"
        and arguments.disaggregation_mode == "null"
    )


def share_nothing(module: ModuleType) -> None:
    """``module``: sglang.srt.distributed.device_communicators.custom_all_reduce_v2, which SGLang
    does without where it cannot be set up. Raises RuntimeError where it lacks a symbol.
    """
    require_attributes(module, ("can_use_custom_all_reduce_v2",))
    can_use = module.can_use_custom_all_reduce_v2

    def can_use_with_processes(*arguments: Any, **options: Any) -> bool:
        if are_ghosts():
            raise RuntimeError("ghost ranks share no memory")
        return bool(can_use(*arguments, **options))

    vars(module)["can_use_custom_all_reduce_v2"] = can_use_with_processes

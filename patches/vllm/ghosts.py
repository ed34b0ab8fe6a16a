"""Ghost ranks of vLLM: the worker that stands for all runs in the engine core's process.

What sets up memory between processes is kept to the worker's own part of it, which is as large as
with real ranks.
"""

from __future__ import annotations

import logging
from types import ModuleType
from typing import Any

from warpserve.patches.ghosts import are_ghosts, are_wanted, make_ghosts, said_of
from warpserve.patches.stand_in import StandIn
from warpserve.patches.versions import require_attributes


def choose_executor(module: ModuleType) -> None:
    """``module``: vllm.v1.executor.abstract."""
    require_attributes(module, ("Executor",))
    require_attributes(module.Executor, ("get_class",))
    get_class = module.Executor.get_class

    def get_class_for_ghosts(config: Any) -> Any:
        chosen = get_class(config)
        if not _is_safe(config):
            return chosen
        from vllm.v1.executor.uniproc_executor import UniProcExecutor

        make_ghosts()
        logging.getLogger("vllm").info(said_of(config.parallel_config.world_size))
        return UniProcExecutor

    module.Executor.get_class = staticmethod(get_class_for_ghosts)


def with_own_buffers(module: ModuleType) -> None:
    """``module``: vllm.distributed.device_communicators.custom_all_reduce."""
    require_attributes(module, ("CustomAllreduce", "ops", "current_platform", "dist"))
    require_attributes(module.CustomAllreduce, ("create_shared_buffer", "register_graph_buffers"))
    create = module.CustomAllreduce.create_shared_buffer

    def create_own(size_in_bytes: int, group: Any = None, **options: Any) -> list[int]:
        if not are_ghosts():
            return list(create(size_in_bytes, group, **options))
        pointer, _ = module.ops.allocate_shared_buffer_and_handle(size_in_bytes)
        return [pointer] * module.dist.get_world_size(group=group)

    module.CustomAllreduce.create_shared_buffer = staticmethod(create_own)
    register_graph_buffers = module.CustomAllreduce.register_graph_buffers

    def register_of_processes(self: Any) -> None:
        """With ghosts nobody else has captured anything."""
        if not are_ghosts():
            register_graph_buffers(self)

    module.CustomAllreduce.register_graph_buffers = register_of_processes
    platform = module.current_platform

    def is_fully_connected(devices: list[int]) -> bool:
        """Of ghosts, each of which said the device of the worker: they have the next ones."""
        if are_ghosts():
            devices = list(range(devices[0], devices[0] + len(devices)))
        return bool(platform.is_fully_connected(devices))

    vars(module)["current_platform"] = StandIn(platform, is_fully_connected=is_fully_connected)
    if getattr(module, "torch_symm_mem", None) is not None:
        without_rendezvous(module)


def without_rendezvous(module: ModuleType) -> None:
    """``module``: vllm.distributed.device_communicators.symm_mem, or since 0.33 its
    custom_all_reduce. Both take the error well.
    """
    require_attributes(module, ("torch_symm_mem",))
    symmetric_memory = module.torch_symm_mem

    def rendezvous(*arguments: Any) -> Any:
        if are_ghosts():
            raise RuntimeError("ghost ranks share no memory")
        return symmetric_memory.rendezvous(*arguments)

    vars(module)["torch_symm_mem"] = StandIn(symmetric_memory, rendezvous=rendezvous)


def _is_safe(config: Any) -> bool:
    """All ranks are of one tensor-parallel group on this host, and nobody else looks at them."""
    parallel = config.parallel_config
    return (
        are_wanted()
        and parallel.tensor_parallel_size > 1
        and parallel.world_size == parallel.tensor_parallel_size
        and parallel.data_parallel_size == 1
        and getattr(parallel, "nnodes", 1) == 1
        and parallel.distributed_executor_backend == "mp"
        and config.kv_transfer_config is None
    )

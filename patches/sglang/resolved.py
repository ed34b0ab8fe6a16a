"""What SGLang has made of its arguments.

0.5.23 keeps that by topic in its runtime context, and `ServerArgs` as they were given; 0.5.14
writes it back into `ServerArgs`.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any


def settings(topic: str, arguments: Any) -> Any:
    """``topic``: model, schedule, spec, lora or disagg; ``arguments``: ServerArgs, as whose fields
    the settings are named.
    """
    from sglang.srt import runtime_context

    if not _are_by_topic(runtime_context):
        return arguments
    return getattr(runtime_context, f"get_{topic}")()


def parallel_of(owner: Any) -> Any:
    """Sizes and ranks, also before there are process groups. ``owner``: a TpModelWorker, or a
    Scheduler.
    """
    from sglang.srt import runtime_context

    if _are_by_topic(runtime_context):
        return runtime_context.get_parallel()
    arguments = owner.server_args
    ranks = getattr(owner, "ps", owner)
    return SimpleNamespace(
        tp_size=arguments.tp_size,
        tp_rank=ranks.tp_rank,
        pp_size=arguments.pp_size,
        pp_rank=ranks.pp_rank,
        dp_rank=ranks.dp_rank,
        ep_size=arguments.ep_size,
        attn_dp_enabled=arguments.enable_dp_attention,
        attn_dp_size=arguments.dp_size if arguments.enable_dp_attention else 1,
    )


def _are_by_topic(runtime_context: Any) -> bool:
    return hasattr(runtime_context, "get_spec")

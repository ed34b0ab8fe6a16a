"""How many tokens a step works on: vLLM pads batches to the sizes of captured CUDA graphs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from inspect import signature
from typing import Any, NamedTuple


class Padded(NamedTuple):
    tokens: int
    is_eager: bool
    """Neither in a CUDA graph nor compiled."""


def padded(runner: Any, new_tokens: Mapping[str, int], loras: int) -> Padded:
    """As the model runner itself would pad the batch.

    ``new_tokens``: by request; ``loras``: how many LoRA adapters the batch uses.
    """
    requests = len(new_tokens)
    tokens = sum(new_tokens.values())
    longest = max(new_tokens.values())
    is_uniform = longest * requests == tokens
    manager = getattr(runner, "cudagraph_manager", None)
    if manager is not None:
        uniform_tokens = longest if is_uniform else None
        options = {"num_active_loras": loras} if _knows_loras(type(manager).dispatch) else {}
        graph = manager.dispatch(requests, tokens, uniform_tokens, **options)
        return Padded(int(graph.num_tokens), _is_eager(runner, graph.cg_mode))
    is_uniform_decode = is_uniform and longest == runner.uniform_decode_query_len
    mode, descriptor = runner.cudagraph_dispatcher.dispatch(
        num_tokens=tokens,
        uniform_decode=is_uniform_decode,
        has_lora=loras > 0,
        num_active_loras=loras,
    )
    return Padded(int(descriptor.num_tokens), _is_eager(runner, mode))


def _is_eager(runner: Any, graph_mode: Any) -> bool:
    """``graph_mode``: a CUDAGraphMode; the other one is a CompilationMode."""
    return bool(graph_mode.name == "NONE" and runner.compilation_config.mode.name == "NONE")


@cache
def _knows_loras(dispatch: Callable[..., Any]) -> bool:
    """Of the second model runner, from vLLM 0.24 on."""
    return "num_active_loras" in signature(dispatch).parameters

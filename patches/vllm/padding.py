"""How many tokens a step works on: vLLM pads batches to the sizes of captured CUDA graphs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from inspect import signature
from typing import Any, NamedTuple

from warpserve.predictors.batch import Batch, Launch


class Padded(NamedTuple):
    tokens: int
    launch: Launch


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
        return Padded(int(graph.num_tokens), _launch(runner, graph.cg_mode))
    is_uniform_decode = is_uniform and longest == runner.uniform_decode_query_len
    mode, descriptor = runner.cudagraph_dispatcher.dispatch(
        num_tokens=tokens,
        uniform_decode=is_uniform_decode,
        has_lora=loras > 0,
        num_active_loras=loras,
    )
    return Padded(int(descriptor.num_tokens), _launch(runner, mode))


def beside(batch: Batch, slowest: Launch, tokens: Sequence[int]) -> Batch:
    """``batch``: of a rank that shares the experts with others; ``slowest``: of all their launches;
    ``tokens``: of each, as it would pad its batch by itself.

    They agree before a step (coordinate_batch_across_dp; in the second model runner
    sync_cudagraph_and_dp_padding). If all are CUDA graphs, all are padded to the largest; if one is
    none, none is, and none is padded to another.
    """
    if slowest is Launch.GRAPH:
        return batch._replace(padded_tokens=max(tokens))
    return batch._replace(launch=slowest, shared_tokens=sum(tokens))


def _launch(runner: Any, graph_mode: Any) -> Launch:
    """``graph_mode``: a CUDAGraphMode; the other one is a CompilationMode."""
    if graph_mode.name != "NONE":
        return Launch.GRAPH
    return Launch.EAGER if runner.compilation_config.mode.name == "NONE" else Launch.COMPILED


@cache
def _knows_loras(dispatch: Callable[..., Any]) -> bool:
    """Of the second model runner, from vLLM 0.24 on."""
    return "num_active_loras" in signature(dispatch).parameters

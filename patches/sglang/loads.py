"""What a step waits for of HiCache: each of its layers for that layer's KV from the host."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from warpserve.patches.virtual_gpu import instant_of


def loads_of(worker: Any, batch: Any) -> list[Any]:
    """Events, one a layer, of what ``batch`` loads; none where it loads nothing.

    ``worker``: a TpModelWorker; ``batch``: a ScheduleBatch.
    """
    if batch.hicache_consumer_index < 0:
        return []
    counter = worker.hicache_layer_transfer_counter
    return list(counter.events[batch.hicache_consumer_index].load_events)


def delay_ns(loads: Iterable[Any], begun_ns: int, duration_ns: int) -> int | None:
    """How much later a step ends that computes layer by layer, each when its load is there.

    The layers take equal parts of the step. None as long as it depends on others when one is there.
    """
    instants = [instant_of(event.cuda_event) for event in loads]
    known = [instant for instant in instants if instant is not None]
    if len(known) < len(instants):
        return None
    return pipelined_ns(known, begun_ns, duration_ns) - duration_ns


def pipelined_ns(loaded_ns: list[int], begun_ns: int, duration_ns: int) -> int:
    """How long a step takes whose layers are loaded at these instants."""
    layers = len(loaded_ns)
    # The last to hold the others up decides: from it on, the rest is computed in one go.
    return max(
        (
            max(loaded - begun_ns, duration_ns * layer // layers)
            + duration_ns
            - duration_ns * layer // layers
            for layer, loaded in enumerate(loaded_ns)
        ),
        default=duration_ns,
    )

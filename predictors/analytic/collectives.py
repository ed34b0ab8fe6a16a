"""Collectives of one machine, by the link that they are as fast as.

A ring moves 2 (n - 1) / n of a message over each link for an all-reduce, in as many steps as
2 (n - 1), and half of both for an all-gather or a reduce-scatter (Patarasu and Yuan, JPDC 69(2),
2009). Over NVLink small messages are as long as the latency: engines use one-shot kernels for them.

Over PCIe it matters whether cards reach each other's memory. All-reduces in CUDA graphs, in us, as
the tables of aiconfigurator-core 0.12.0 have them of machines of both kinds, and as they are here:

| GPUs | tables of | 8 KB | here | 1 MB | here | 64 MB | here |
|---|---|---|---|---|---|---|---|
| 2 x RTX PRO 6000, peers | vLLM 0.24.0 | 4.5 | 4.7 | 30 | 31 | 1,844 | 1,676 |
| 4 | vLLM 0.24.0 | 13.7 | 12.9 | 88 | 70 | 3,557 | 3,673 |
| 8 | vLLM 0.24.0 | 26.6 | 25.0 | 134 | 91 | 5,068 | 4,295 |
| 2 x L40S, peers | vLLM 0.22.0 | 5.7 | 4.9 | 60 | 60 | 3,542 | 3,540 |
| 2 x RTX PRO 6000, by the host | vLLM 0.19.0 | 19.1 | 20.5 | 92 | 90 | 4,406 | 4,490 |

NCCL's all-gathers of 8 KB between 2, 4 and 8 peers take 6.2, 9.8 and 15.3 us there, and 5.1, 8.2
and 14.3 here.
"""

from __future__ import annotations

from typing import NamedTuple

from warpserve.predictors.hardware import Hardware


class _Way(NamedTuple):
    """How messages go from one GPU to the next."""

    latency_ns: float
    step_ns: float
    """Beside that, for each step."""
    efficiency: float
    """Of the link's bandwidth; over PCIe, of copies from the host."""


_NVLINK = _Way(6_500.0, 0.0, 0.75)
"""Near vLLM's custom all-reduce in CUDA graphs on H100s."""
_PAIR = _Way(4_500.0, 0.0, 0.73)
"""vLLM's custom all-reduce, which two cards that reach each other have without NVLink, too."""
_BETWEEN_PEERS = _Way(3_500.0, 1_500.0, 0.5)
"""NCCL's rings over PCIe."""
_BY_HOST = _Way(3_500.0, 8_250.0, 0.273)


def all_reduce_ns(hardware: Hardware, ranks: int, message_bytes: float) -> float:
    way = _way(hardware, ranks)
    if way is _BETWEEN_PEERS and ranks == 2:
        way = _PAIR
    moved_bytes = 2 * message_bytes * (ranks - 1) / ranks
    return _duration_ns(hardware, ranks, way, 2 * (ranks - 1), moved_bytes)


def gather_ns(hardware: Hardware, ranks: int, message_bytes: float) -> float:
    """All-gather or reduce-scatter of a message that has so many bytes when it is whole."""
    moved_bytes = message_bytes * (ranks - 1) / ranks
    return _duration_ns(hardware, ranks, _way(hardware, ranks), ranks - 1, moved_bytes)


def all_to_all_ns(hardware: Hardware, ranks: int, sent_bytes: float) -> float:
    """``sent_bytes``: what each rank sends to all others together, over a link of its own."""
    return _duration_ns(hardware, ranks, _way(hardware, ranks), 1, sent_bytes)


def _way(hardware: Hardware, ranks: int) -> _Way:
    if hardware.are_joined_by_nvlink(ranks):
        return _NVLINK
    return _BY_HOST if hardware.go_through_host(ranks) else _BETWEEN_PEERS


def _duration_ns(
    hardware: Hardware, ranks: int, way: _Way, steps: int, over_a_link_bytes: float
) -> float:
    if ranks == 1:
        return 0.0
    bandwidth = hardware.link_bandwidth_bytes_per_s(ranks) * way.efficiency
    return way.latency_ns + steps * way.step_ns + over_a_link_bytes / bandwidth * 1e9

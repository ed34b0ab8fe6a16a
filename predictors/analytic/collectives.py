"""Collectives of one machine, by the link that they are as fast as.

A ring moves 2 (n - 1) / n of a message over each link for an all-reduce, and half of that for an
all-gather or a reduce-scatter (Patarasu and Yuan, JPDC 69(2), 2009). Small messages are as long as
the latency, whatever the algorithm: engines use one-shot kernels for them.

Over PCIe it matters whether cards reach each other's memory. All-reduces in CUDA graphs, in us, as
the tables of aiconfigurator-core 0.12.0 have them of machines of both kinds, and as they are here:

| GPUs | tables of | 8 KB | here | 1 MB | here | 64 MB | here |
|---|---|---|---|---|---|---|---|
| 2 x RTX PRO 6000, peers | vLLM 0.24.0 | 4.5 | 4.7 | 30 | 31 | 1,844 | 1,676 |
| 4 | vLLM 0.24.0 | 13.7 | 13.0 | 88 | 70 | 3,557 | 3,673 |
| 8 | vLLM 0.24.0 | 26.6 | 25.7 | 134 | 92 | 5,068 | 4,296 |
| 2 x L40S, peers | vLLM 0.22.0 | 5.7 | 4.9 | 60 | 60 | 3,542 | 3,540 |
| 2 x RTX PRO 6000, by the host | vLLM 0.19.0 | 19.1 | 20.5 | 92 | 90 | 4,406 | 4,490 |
"""

from __future__ import annotations

from typing import NamedTuple

from warpserve.predictors.hardware import Hardware


class _Way(NamedTuple):
    """From a GPU to the next, for a collective."""

    latency_ns: float
    bandwidth_bytes_per_s: float


_NVLINK_LATENCY_NS = 6_500.0
"""Near that of vLLM's custom all-reduce in CUDA graphs on H100s."""
_NVLINK_EFFICIENCY = 0.75
_PAIR_LATENCY_NS = 4_500.0
"""Of vLLM's custom all-reduce, which two cards that reach each other have without NVLink, too."""
_PAIR_EFFICIENCY = 0.73
_RING_LATENCY_NS = 3_150.0
"""NCCL's, for each card of a ring."""
_RING_EFFICIENCY = 0.5
_HOST_LATENCY_NS = 10_000.0
"""NCCL's through the host's memory, for each card: measured of two."""
_HOST_EFFICIENCY = 0.273


def all_reduce_ns(hardware: Hardware, ranks: int, message_bytes: float) -> float:
    return _ring_ns(hardware, ranks, 2 * message_bytes)


def gather_ns(hardware: Hardware, ranks: int, message_bytes: float) -> float:
    """All-gather or reduce-scatter of a message that has so many bytes when it is whole."""
    return _ring_ns(hardware, ranks, message_bytes)


def all_to_all_ns(hardware: Hardware, ranks: int, sent_bytes: float) -> float:
    """``sent_bytes``: what each rank sends to all others together, over a link of its own."""
    if ranks == 1:
        return 0.0
    return _moved_ns(hardware, ranks, sent_bytes)


def _ring_ns(hardware: Hardware, ranks: int, moved_bytes: float) -> float:
    if ranks == 1:
        return 0.0
    return _moved_ns(hardware, ranks, moved_bytes * (ranks - 1) / ranks)


def _moved_ns(hardware: Hardware, ranks: int, over_a_link_bytes: float) -> float:
    way = _way(hardware, ranks)
    return way.latency_ns + over_a_link_bytes / way.bandwidth_bytes_per_s * 1e9


def _way(hardware: Hardware, ranks: int) -> _Way:
    """PCIe is as fast as copies from the host are."""
    bandwidth = hardware.link_bandwidth_bytes_per_s(ranks)
    if hardware.are_joined_by_nvlink(ranks):
        return _Way(_NVLINK_LATENCY_NS, bandwidth * _NVLINK_EFFICIENCY)
    if hardware.go_through_host(ranks):
        return _Way(ranks * _HOST_LATENCY_NS, bandwidth * _HOST_EFFICIENCY)
    if ranks == 2:
        return _Way(_PAIR_LATENCY_NS, bandwidth * _PAIR_EFFICIENCY)
    return _Way(ranks * _RING_LATENCY_NS, bandwidth * _RING_EFFICIENCY)

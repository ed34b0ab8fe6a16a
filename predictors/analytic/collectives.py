"""Collectives of one machine, by the link that they are as fast as.

A ring moves 2 (n - 1) / n of a message over each link for an all-reduce, and half of that for an
all-gather or a reduce-scatter (Patarasu and Yuan, JPDC 69(2), 2009). Small messages are as long as
the latency, whatever the algorithm: engines use one-shot kernels for them.
"""

from __future__ import annotations

from warpserve.predictors.hardware import Hardware

_LINK_EFFICIENCY = 0.75
_NVLINK_LATENCY_NS = 6_500.0
"""Near that of vLLM's custom all-reduce in CUDA graphs on H100s."""
_PCIE_LATENCY_NS = 20_000.0


def all_reduce_ns(hardware: Hardware, ranks: int, message_bytes: float) -> float:
    return _ring_ns(hardware, ranks, 2 * message_bytes)


def gather_ns(hardware: Hardware, ranks: int, message_bytes: float) -> float:
    """All-gather or reduce-scatter of a message that has so many bytes when it is whole."""
    return _ring_ns(hardware, ranks, message_bytes)


def all_to_all_ns(hardware: Hardware, ranks: int, sent_bytes: float) -> float:
    """``sent_bytes``: what each rank sends to all others together, over a link of its own."""
    if ranks == 1:
        return 0.0
    return _latency_ns(hardware, ranks) + _moved_ns(hardware, ranks, sent_bytes)


def _ring_ns(hardware: Hardware, ranks: int, moved_bytes: float) -> float:
    if ranks == 1:
        return 0.0
    over_a_link = moved_bytes * (ranks - 1) / ranks
    return _latency_ns(hardware, ranks) + _moved_ns(hardware, ranks, over_a_link)


def _latency_ns(hardware: Hardware, ranks: int) -> float:
    is_nvlink = hardware.are_joined_by_nvlink(ranks)
    return _NVLINK_LATENCY_NS if is_nvlink else _PCIE_LATENCY_NS


def _moved_ns(hardware: Hardware, ranks: int, bytes_: float) -> float:
    bandwidth = hardware.link_bandwidth_bytes_per_s(ranks)
    return bytes_ / (bandwidth * _LINK_EFFICIENCY) * 1e9

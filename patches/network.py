"""The link of one GPU to the network, which several transfers share fairly."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass
from functools import cache

from warpserve.predictors.hardware import hardware_of_session

BANDWIDTH = "WARPSERVE_NETWORK_GB_PER_S"
"""Of one GPU's network card, in 10^9 bytes a second."""


@dataclass(eq=False)
class _Transfer:
    left_bytes: float


class Link:
    """Of one GPU to the network: those that send at one time have equal shares of it.

    In which order threads come at one instant therefore makes no difference.
    """

    def __init__(self, bytes_per_s: float) -> None:
        if bytes_per_s <= 0:
            raise ValueError(f"a link of {bytes_per_s} bytes/s never sends anything")
        self._bytes_per_ns = bytes_per_s / 1e9
        self._changed = threading.Condition()
        self._transfers: list[_Transfer] = []
        self._known_ns = 0

    def send(self, bytes_: int) -> None:
        """Returns when they have arrived."""
        transfer = _Transfer(bytes_)
        with self._changed:
            self._advance()
            self._transfers.append(transfer)
            self._changed.notify_all()
            while (wait_ns := self._wait_ns(transfer)) > 0:
                self._changed.wait(wait_ns / 1e9)
                self._advance()
            self._transfers.remove(transfer)
            self._changed.notify_all()

    def _wait_ns(self, transfer: _Transfer) -> int:
        """Until it would be complete if nothing changed, in whole ns, rounded."""
        return round(transfer.left_bytes * len(self._transfers) / self._bytes_per_ns)

    def _advance(self) -> None:
        now_ns = time.monotonic_ns()
        if self._transfers:
            sent = (now_ns - self._known_ns) * self._bytes_per_ns / len(self._transfers)
            for transfer in self._transfers:
                transfer.left_bytes -= sent
        self._known_ns = now_ns


@cache
def link_of_process() -> Link:
    """This process', which has one GPU."""
    return Link(_bytes_per_s())


def _bytes_per_s() -> float:
    """Without other word, as fast as the GPU reaches its card over PCIe.

    Raises ValueError for a bandwidth that is no positive number.
    """
    said = os.environ.get(BANDWIDTH)
    if said is None:
        return hardware_of_session().host_bandwidth_bytes_per_s
    try:
        bytes_per_s = float(said) * 1e9
    except ValueError:
        bytes_per_s = 0.0
    if not bytes_per_s > 0:
        raise ValueError(f"{BANDWIDTH}={said}: give a positive number of 10^9 bytes a second")
    return bytes_per_s

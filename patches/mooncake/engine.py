"""``mooncake.engine``: as much of it as SGLang asks for."""

from __future__ import annotations

import logging
import socket
from collections.abc import Sequence

from warpserve.patches.network import link_of_process

_LOG = logging.getLogger("warpserve.mooncake")


class TransferEngine:
    """Of one rank. Methods return 0, Mooncake's success."""

    def __init__(self) -> None:
        """Raises ValueError where the link's bandwidth is none."""
        self._link = link_of_process()
        self._port = socket.socket()
        """Bound, so that no other engine of this host has its number; nobody ever connects."""

    def initialize(self, hostname: str, _metadata: str, _protocol: str, _device: str) -> int:
        self._port.bind((hostname, 0))
        return 0

    def get_rpc_port(self) -> int:
        return int(self._port.getsockname()[1])

    def register_memory(self, _address: int, _bytes: int) -> int:
        return 0

    def unregister_memory(self, _address: int) -> int:
        return 0

    def batch_register_memory(self, _addresses: Sequence[int], _bytes: Sequence[int]) -> int:
        return 0

    def batch_unregister_memory(self, _addresses: Sequence[int]) -> int:
        return 0

    def transfer_sync_write(self, session: str, source: int, target: int, bytes_: int) -> int:
        return self.batch_transfer_sync_write(session, [source], [target], [bytes_])

    def batch_transfer_sync_write(
        self,
        session: str,
        _sources: Sequence[int],
        _targets: Sequence[int],
        bytes_: Sequence[int],
    ) -> int:
        """Returns when the last block has arrived."""
        _LOG.info("%d blocks, %d bytes, to %s", len(bytes_), sum(bytes_), session)
        self._link.send(sum(bytes_))
        return 0

    def send_probe(self, _session: str) -> int:
        return 0

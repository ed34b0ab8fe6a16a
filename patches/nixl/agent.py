"""``nixl._api``: as much of an agent as vLLM and SGLang ask for."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpserve.patches.network import link_of_process
from warpserve.patches.nixl.blocks import Blocks, PreparedBlocks
from warpserve.patches.nixl.mailbox import Mailbox
from warpserve.patches.nixl.transfer import CHANGES, HostCopy, Telemetry, Transfer


class ThreadSync(Enum):
    """What threads of one process take turns for."""

    NIXL_THREAD_SYNC_NONE = 0
    NIXL_THREAD_SYNC_STRICT = 1
    NIXL_THREAD_SYNC_RW = 2
    NIXL_THREAD_SYNC_DEFAULT = 3


class AgentConfig:
    """What a real agent is told of threads and backends means nothing here."""

    def __init__(self, *_arguments: Any, **_options: Any) -> None:
        pass


class Agent:
    """Of one rank. Its metadata are its name, by which others find it."""

    def __init__(self, agent_name: str, _config: AgentConfig | None = None) -> None:
        """Raises ValueError where the link's bandwidth is none."""
        self.name = agent_name
        self._link = link_of_process()
        self._mailbox = Mailbox(agent_name)
        self._remotes: set[str] = set()
        self._backends: list[str] = []

    def create_backend(self, backend: str, _parameters: Any = None) -> None:
        self._backends.append(backend)

    def get_plugin_list(self) -> list[str]:
        return self._backends

    def get_agent_metadata(self) -> bytes:
        return self.name.encode()

    def add_remote_agent(self, metadata: bytes) -> str:
        name = metadata.decode()
        self._remotes.add(name)
        return name

    def remove_remote_agent(self, name: str) -> None:
        self._remotes.discard(name)

    def check_remote_metadata(self, name: str) -> bool:
        return name in self._remotes

    def get_reg_descs(self, descriptors: Any, _memory: str | None = None) -> Any:
        return descriptors

    def register_memory(self, descriptors: Any, *_arguments: Any, **_options: Any) -> Any:
        return descriptors

    def deregister_memory(self, _descriptors: Any, **_options: Any) -> None:
        pass

    def get_xfer_descs(self, descriptors: Any, memory: str | None = None) -> Blocks:
        return Blocks(descriptors, memory)

    def prep_xfer_dlist(
        self, agent: str, blocks: Any, memory: str | None = None, **_options: Any
    ) -> PreparedBlocks:
        described = blocks if isinstance(blocks, Blocks) else Blocks(blocks, memory)
        return PreparedBlocks(agent, described)

    def release_dlist_handle(self, _handle: PreparedBlocks) -> None:
        pass

    def make_prepped_xfer(
        self,
        _operation: str,
        local: PreparedBlocks,
        local_indices: Sequence[int],
        remote: PreparedBlocks,
        remote_indices: Sequence[int],
        notif_msg: bytes = b"",
        **_options: Any,
    ) -> Transfer:
        """Raises ValueError where the two sides are no equal blocks."""
        sizes = local.blocks.sizes(local_indices)
        require_equal(sizes, remote.blocks.sizes(remote_indices), remote.agent)
        return Transfer(remote.agent, sizes, notif_msg)

    def initialize_xfer(
        self,
        operation: str,
        local: Blocks,
        remote: Blocks,
        remote_agent: str,
        notif_msg: bytes = b"",
        **_options: Any,
    ) -> Transfer:
        """Raises ValueError likewise, and for a READ of the host's memory: nobody asks for that."""
        sizes = local.sizes()
        require_equal(sizes, remote.sizes(), remote_agent)
        copies = list(map(HostCopy, local.host_addresses, remote.host_addresses, map(int, sizes)))
        if copies and operation != "WRITE":
            raise ValueError(f"a {operation} of the host's memory has no stand-in")
        return Transfer(remote_agent, sizes, notif_msg, copies)

    def transfer(self, transfer: Transfer, **_options: Any) -> str:
        transfer.begin(self._link, self._mailbox)
        return "PROC"

    def check_xfer_state(self, transfer: Transfer) -> str:
        return CHANGES.state_of(transfer)

    def get_xfer_telemetry(self, transfer: Transfer) -> Telemetry:
        return transfer.telemetry

    def release_xfer_handle(self, _transfer: Transfer) -> None:
        pass

    def send_notif(self, remote_agent_name: str, notif_msg: bytes, **_options: Any) -> None:
        self._mailbox.notify(remote_agent_name, notif_msg)

    def get_new_notifs(self, **_options: Any) -> dict[str, list[bytes]]:
        return self._mailbox.take_notifications()


def require_equal(sizes: NDArray[Any], remote_sizes: NDArray[Any], remote: str) -> None:
    if not np.array_equal(sizes, remote_sizes):
        raise ValueError(
            f"{len(sizes)} blocks of {sizes.sum()} bytes here, and {len(remote_sizes)} of "
            f"{remote_sizes.sum()} at {remote}"
        )

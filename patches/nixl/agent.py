"""``nixl._api``: as much of an agent as vLLM asks for."""

from __future__ import annotations

import logging
import threading
import time
from array import array
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from warpserve.patches.network import link_of_process
from warpserve.patches.nixl.mailbox import Mailbox

_LOG = logging.getLogger("warpserve.nixl")

Descriptors = Sequence[tuple[int, int, int]]
"""Address, bytes and device of each block."""


class AgentConfig:
    """What a real agent is told of threads and backends means nothing here."""

    def __init__(self, *_arguments: Any, **_options: Any) -> None:
        pass


class Telemetry(NamedTuple):
    """Of a transfer that is done. Durations in us."""

    postDuration: int  # noqa: N815
    xferDuration: int  # noqa: N815
    totalBytes: int  # noqa: N815
    descCount: int  # noqa: N815


class DescriptorList(NamedTuple):
    """Prepared for transfers: the bytes of each block, and whose they are."""

    agent: str
    bytes_: array[int]


class Transfer:
    """Of some blocks, over the link of the process that begins it."""

    def __init__(self, remote: str, bytes_: int, blocks: int, notification: bytes) -> None:
        self._remote = remote
        self._bytes = bytes_
        self._blocks = blocks
        self._notification = notification
        self._begin_ns = 0
        self._end_ns = 0
        self.state = "INIT"

    def begin(self, mailbox: Mailbox) -> None:
        self._begin_ns = time.monotonic_ns()
        self.state = "PROC"
        threading.Thread(target=self._carry, args=(mailbox,), daemon=True).start()

    def _carry(self, mailbox: Mailbox) -> None:
        link_of_process().send(self._bytes)
        self._end_ns = time.monotonic_ns()
        _LOG.info("%d blocks, %d bytes, with %s", self._blocks, self._bytes, self._remote)
        try:
            if self._notification:
                mailbox.send(self._remote, self._notification)
        except OSError as error:
            _LOG.warning("a transfer failed: its agent %s is gone (%s)", self._remote, error)
            self.state = "ERR"
        else:
            self.state = "DONE"

    @property
    def telemetry(self) -> Telemetry:
        duration_us = (self._end_ns - self._begin_ns) // 1000
        return Telemetry(0, duration_us, self._bytes, self._blocks)


class Agent:
    """Of one rank. Its metadata are its name, which is its address, too."""

    def __init__(self, agent_name: str, _config: AgentConfig | None = None) -> None:
        self.name = agent_name
        self._mailbox = Mailbox(agent_name)

    def get_agent_metadata(self) -> bytes:
        return self.name.encode()

    def add_remote_agent(self, metadata: bytes) -> str:
        return metadata.decode()

    def remove_remote_agent(self, _name: str) -> None:
        pass

    def get_reg_descs(self, descriptors: Any, _memory: str | None = None) -> Any:
        return descriptors

    def register_memory(self, _descriptors: Any, **_options: Any) -> None:
        pass

    def deregister_memory(self, _descriptors: Any, **_options: Any) -> None:
        pass

    def get_xfer_descs(self, descriptors: Descriptors, _memory: str | None = None) -> array[int]:
        return array("q", [bytes_ for _, bytes_, *_ in descriptors])

    def prep_xfer_dlist(
        self, agent: str, descriptors: array[int], **_options: Any
    ) -> DescriptorList:
        return DescriptorList(agent, descriptors)

    def release_dlist_handle(self, _handle: DescriptorList) -> None:
        pass

    def make_prepped_xfer(
        self,
        _operation: str,
        local: DescriptorList,
        local_indices: Iterable[int],
        remote: DescriptorList,
        remote_indices: Iterable[int],
        notif_msg: bytes = b"",
        **_options: Any,
    ) -> Transfer:
        """Raises ValueError where the two sides are no equal blocks."""
        mine = [local.bytes_[index] for index in local_indices]
        theirs = [remote.bytes_[index] for index in remote_indices]
        if mine != theirs:
            raise ValueError(
                f"{len(mine)} blocks of {sum(mine)} bytes here, and {len(theirs)} of {sum(theirs)} "
                f"at {remote.agent}"
            )
        return Transfer(remote.agent, sum(mine), len(mine), notif_msg)

    def transfer(self, transfer: Transfer, **_options: Any) -> str:
        transfer.begin(self._mailbox)
        return transfer.state

    def check_xfer_state(self, transfer: Transfer) -> str:
        return transfer.state

    def get_xfer_telemetry(self, transfer: Transfer) -> Telemetry:
        return transfer.telemetry

    def release_xfer_handle(self, _transfer: Transfer) -> None:
        pass

    def send_notif(self, remote_agent_name: str, notif_msg: bytes, **_options: Any) -> None:
        self._mailbox.send(remote_agent_name, notif_msg)

    def get_new_notifs(self, **_options: Any) -> dict[str, list[bytes]]:
        return self._mailbox.take()

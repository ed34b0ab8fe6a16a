"""Sockets of a scheduler whose peer may never come, such as that for commands, which SGLang's HTTP
server does not give.

ZeroMQ looks for it some ten times a second, and each would be an advance of virtual time.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from warpserve.patches.sglang.channels import change_channels

_LOOK_MS = 1_000
_MAYBE_ALONE = ("recv_from_rpc", "send_metrics_from_scheduler")


def look_for_peers_each_second(module: ModuleType) -> None:
    """``module``: sglang.srt.managers.scheduler_components.ipc_channels.

    Raises RuntimeError where it lacks a symbol.
    """

    def patient(channels: Any) -> Any:
        for name in _MAYBE_ALONE:
            socket = getattr(channels, name, None)
            if socket is not None:
                connect_again(socket, module.zmq)
        return channels

    change_channels(module, patient)


def connect_again(socket: Any, zmq: Any) -> None:
    """So that it looks for its peer less often. ``socket``: a zmq.Socket that has connected."""
    endpoint = socket.getsockopt(zmq.LAST_ENDPOINT).rstrip(b"\0").decode()
    socket.disconnect(endpoint)
    socket.setsockopt(zmq.RECONNECT_IVL, _LOOK_MS)
    socket.connect(endpoint)

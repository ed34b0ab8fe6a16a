"""The sockets of a scheduler, as soon as it has made them."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from warpserve.patches.versions import require_attributes


def change_channels(module: ModuleType, changed: Callable[[Any], Any]) -> None:
    """``module``: sglang.srt.managers.scheduler_components.ipc_channels. ``changed``: what takes
    the place of a SchedulerIpcChannels.

    Raises RuntimeError where it lacks a symbol.
    """
    require_attributes(module, ("SchedulerIpcChannels", "zmq"))
    channels_class = module.SchedulerIpcChannels
    require_attributes(channels_class, ("create",))
    create = channels_class.create.__func__

    def create_changed(cls: Any, /, **options: Any) -> Any:
        return changed(create(cls, **options))

    channels_class.create = classmethod(create_changed)

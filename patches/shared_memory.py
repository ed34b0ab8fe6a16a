"""Shared memory that engines make, noted for the end of the session: who is killed leaves it."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from warpserve.patches.session import session_folder
from warpserve.patches.versions import require_attributes
from warpserve.timekeeper.shared_memory import note


def note_shared_memory(module: ModuleType) -> None:
    """``module``: multiprocessing.shared_memory. Raises RuntimeError where it lacks a symbol."""
    require_attributes(module, ("SharedMemory",))
    memory_class = module.SharedMemory
    make = memory_class.__init__

    def make_noted(
        self: Any, name: str | None = None, create: bool = False, *more: Any, **options: Any
    ) -> None:
        make(self, name, create, *more, **options)
        if create:
            note(session_folder(), self.name.lstrip("/"))

    memory_class.__init__ = make_noted

"""Patches that must all have been applied before the first request."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from contextlib import closing
from types import ModuleType
from typing import Any

from warpserve.patches.imported import Action, after_import, after_import_moved
from warpserve.patches.versions import require_attributes


class Verified:
    """What a scheduler cannot do without. An SGLang that never imports one of the modules does its
    work elsewhere, and would run unpatched.
    """

    def __init__(self) -> None:
        self._missing: list[str] = []

    def after_import(self, name: str, patch: Action, *, before: str | None = None) -> None:
        """``before``: the module's name in older versions."""
        self._missing.append(name)

        def apply(module: ModuleType) -> None:
            patch(module)
            self._missing.remove(name)

        if before is None:
            after_import(name, apply)
        else:
            after_import_moved(name, before, apply)

    def require_all(self) -> None:
        """Raises RuntimeError, naming the modules."""
        if self._missing:
            names = ", ".join(sorted(set(self._missing)))
            raise RuntimeError(
                f"warpserve's patches need SGLang to use {names}, which "
                "it has not imported: this version is not one that they were made for"
            )

    def before_event_loop(self, module: ModuleType) -> None:
        """``module``: sglang.srt.managers.scheduler.

        Raises RuntimeError where it lacks a symbol.
        """
        require_attributes(module, ("Scheduler",))
        require_attributes(module.Scheduler, ("run_event_loop",))
        run: Callable[..., Any] = module.Scheduler.run_event_loop

        def run_verified(self_: Any) -> Any:
            from warpserve_autoload.torch_ops import control_memory

            self.require_all()
            inbox = self_.ipc_channels.recv_from_tokenizer
            # Page indices live in tensors that grow with the KV cache.
            with control_memory(), contextlib.nullcontext() if inbox is None else closing(inbox):
                return run(self_)

        module.Scheduler.run_event_loop = run_verified

"""Models that are only configurations: loaded without weights."""

from __future__ import annotations

import os
from types import ModuleType
from typing import Any

from warpserve.patches.versions import require_attributes
from warpserve.predictors.spec import SESSION_PREDICTOR


def load_configurations(module: ModuleType) -> None:
    """``module``: sglang.srt.server_args. Raises RuntimeError where it lacks a symbol."""
    require_attributes(module, ("ServerArgs",))
    arguments_class = module.ServerArgs
    require_attributes(arguments_class, ("resolve_once", "load_format"))
    resolve_once = arguments_class.resolve_once

    def resolve_without_weights(self: Any) -> None:
        """What would be computed with weights is not: SGLang's own dummies have the right sizes."""
        is_resolved = getattr(self, "_resolution_finished", False)
        if SESSION_PREDICTOR in os.environ and self.load_format == "auto" and not is_resolved:
            self.load_format = "dummy"
        resolve_once(self)

    arguments_class.resolve_once = resolve_without_weights

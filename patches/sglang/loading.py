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
    require_attributes(arguments_class, ("__post_init__", "load_format"))
    post_init = arguments_class.__post_init__

    def without_weights(self: Any, *arguments: Any, **options: Any) -> None:
        """What would be computed with weights is not: SGLang's own dummies have the right sizes."""
        if SESSION_PREDICTOR in os.environ and self.load_format == "auto":
            self.load_format = "dummy"
        post_init(self, *arguments, **options)

    arguments_class.__post_init__ = without_weights

"""Models that are only configurations: loaded without weights. Their adapters have some."""

from __future__ import annotations

import copy
import os
from types import ModuleType
from typing import Any

from warpserve.patches.versions import require_attributes
from warpserve.predictors.spec import SESSION_PREDICTOR


def load_configurations(module: ModuleType) -> None:
    """``module``: sglang.srt.server_args. Raises RuntimeError where it lacks a symbol."""
    require_attributes(module, ("ServerArgs",))
    arguments_class = module.ServerArgs
    # Where SGLang resolves them first when it needs them; before, when they are made.
    name = "resolve_once" if hasattr(arguments_class, "resolve_once") else "__post_init__"
    require_attributes(arguments_class, (name, "load_format"))
    resolve = getattr(arguments_class, name)

    def resolve_without_weights(self: Any) -> None:
        """What would be computed with weights is not: SGLang's own dummies have the right sizes."""
        is_resolved = getattr(self, "_resolution_finished", False)
        if SESSION_PREDICTOR in os.environ and self.load_format == "auto" and not is_resolved:
            self.load_format = "dummy"
        resolve(self)

    setattr(arguments_class, name, resolve_without_weights)


def load_adapters(module: ModuleType) -> None:
    """``module``: sglang.srt.lora.lora. Raises RuntimeError where it lacks a symbol.

    Adapters are small, and read from their files: there are no dummies of them.
    """
    require_attributes(module, ("DefaultModelLoader",))
    loader_class = module.DefaultModelLoader

    class AdapterLoader(loader_class):  # type: ignore[misc, valid-type]
        def __init__(self, load_config: Any) -> None:
            config = copy.copy(load_config)
            if config.load_format == "dummy":
                config.load_format = type(load_config.load_format)("auto")
            super().__init__(config)

    vars(module)["DefaultModelLoader"] = AdapterLoader

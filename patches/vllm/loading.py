"""Weights are not read: what would be computed with them is not."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from warpserve.patches.versions import require_attributes


def load_dummies(module: ModuleType) -> None:
    """``module``: vllm.engine.arg_utils.

    Where the user names no load format, it is vLLM's own "dummy": weights of the right sizes, from
    the model's configuration alone. Raises RuntimeError where the module lacks a symbol.
    """
    require_attributes(module, ("EngineArgs",))
    arguments_class = module.EngineArgs
    require_attributes(arguments_class, ("create_load_config", "load_format"))
    create_load_config = arguments_class.create_load_config

    def create_without_weights(self: Any) -> Any:
        if self.load_format == "auto":
            self.load_format = "dummy"
        return create_load_config(self)

    arguments_class.create_load_config = create_without_weights

"""Models that are only configurations: loaded without weights, called by the name they were asked
for.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from warpserve.patches.versions import require_attributes


def load_configurations(module: ModuleType) -> None:
    """``module``: vllm.engine.arg_utils. Raises RuntimeError where it lacks a symbol."""
    require_attributes(module, ("EngineArgs",))
    arguments_class = module.EngineArgs
    require_attributes(
        arguments_class, ("create_load_config", "load_format", "served_model_name", "__post_init__")
    )
    create_load_config = arguments_class.create_load_config
    post_init = arguments_class.__post_init__

    def create_without_weights(self: Any) -> Any:
        """What would be computed with weights is not: vLLM's own dummies have the right sizes."""
        if self.load_format == "auto":
            self.load_format = "dummy"
        return create_load_config(self)

    def keep_name(self: Any) -> None:
        """Offline, vLLM puts a folder in the name's place, also in its metrics."""
        asked = self.model
        post_init(self)
        if self.served_model_name is None and self.model != asked:
            self.served_model_name = asked

    arguments_class.create_load_config = create_without_weights
    arguments_class.__post_init__ = keep_name

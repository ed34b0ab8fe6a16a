"""Models whose kernels nobody compiles, and whose batches are padded as if they were."""

from __future__ import annotations

import sys
from typing import Any

_ASKED_IN = ("vllm.v1.worker.gpu.cudagraph_utils", "vllm.v1.worker.gpu.model_runner")
_ANSWER = "has_compiled_submodule"


def leave_uncompiled(model: Any) -> None:
    """``model``: one that is loaded, and has not run.

    Since 0.33, vLLM's second model runner asks whether there is something that `torch.compile`
    cuts into pieces: without, it would capture no pieces, and not pad the batches that they take.
    """
    for name in _ASKED_IN:
        module = sys.modules.get(name)
        if module is not None and hasattr(module, _ANSWER):
            is_compiled = bool(getattr(module, _ANSWER)(model))
            setattr(module, _ANSWER, lambda _, answer=is_compiled: answer)
    for part in model.modules():
        if hasattr(part, "do_not_compile"):
            part.do_not_compile = True

"""A server's check of its own health: it asks for a token, and wants an answer *after* that.

In `exact` a decode server answers at the very instant at which it is asked, as it computes nothing.
"""

from __future__ import annotations

import math
from types import ModuleType

from warpserve.patches.versions import require_attributes


def answer_later(module: ModuleType) -> None:
    """``module``: sglang.srt.managers.tokenizer_manager, which notes when the last answer came, for
    this check alone. Raises RuntimeError where it lacks a symbol.
    """
    require_attributes(module, ("real_time",))
    real_time = module.real_time
    vars(module)["real_time"] = lambda: math.nextafter(real_time(), math.inf)

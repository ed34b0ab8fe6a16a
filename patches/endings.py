"""The end of an engine's own program.

Python takes apart all that a program has imported as it ends: for an engine, seconds. Its memory
goes with the process anyway.
"""

from __future__ import annotations

import atexit
import gc
from types import ModuleType


def end_at_once(module: ModuleType) -> None:  # noqa: ARG001  an Action of after_import
    """At the end of this process, most objects that it has by then stay as they are. What was
    registered to be done then is done.

    For programs that close their files: one that is only left behind would lack what is still in
    its buffer.
    """
    atexit.register(gc.freeze)

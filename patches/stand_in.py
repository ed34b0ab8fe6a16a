"""An object or module in which a few names are replaced, for one of its users alone."""

from __future__ import annotations

from typing import Any


class StandIn:
    """``original``, but for the attributes that are given."""

    def __init__(self, original: Any, **replaced: Any) -> None:
        vars(self).update(replaced)
        self._original = original

    def __getattr__(self, name: str) -> Any:
        return getattr(self._original, name)

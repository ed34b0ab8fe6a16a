"""Patches check what they find: the engine's version, and each symbol that they need."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from importlib.metadata import version

INSIST = "WARPSERVE_INSIST"


def require_version(engine: str, known: Sequence[str]) -> None:
    """Raises RuntimeError for a version that is not among the known ones, unless told to insist."""
    found = version(engine).partition("+")[0]
    if found not in known and not os.environ.get(INSIST):
        raise RuntimeError(
            f"warpserve knows {engine} {', '.join(known)}, and this is {found}: install one of "
            f"those (`warpserve engine install {engine}=={known[-1]}`), or set {INSIST}=1 to try"
        )


def require_attributes(owner: object, names: Iterable[str]) -> None:
    """Raises RuntimeError, naming them, where a patch needs what ``owner`` does not have."""
    missing = [name for name in names if not hasattr(owner, name)]
    if missing:
        raise RuntimeError(
            f"warpserve's patch needs {', '.join(missing)} of {owner!r}, which it does not have: "
            "this version of the engine is not one that it was made for"
        )

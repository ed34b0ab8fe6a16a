"""A stand-in for the package ``mooncake``, of which engines use the transfer engine to send KV.

What would be read from one GPU and written to another does not exist. A transfer takes its bytes
over the network, in virtual time.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

_NAMES = ("mooncake", "mooncake.engine")


def supply() -> None:
    """From now on, this process imports the stand-in where the real package is not installed."""
    if not any(isinstance(finder, _LastFinder) for finder in sys.meta_path):
        sys.meta_path.append(_LastFinder())


class _LastFinder(MetaPathFinder):
    """Asked when no other finder knows the package."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,  # noqa: ARG002
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        if fullname not in _NAMES:
            return None
        return ModuleSpec(fullname, _Loader(), is_package=fullname == "mooncake")


class _Loader(Loader):
    def exec_module(self, module: ModuleType) -> None:
        # What is no KV, some kB of a request, is in the host's memory and really has to arrive.
        os.environ.setdefault("SGLANG_MOONCAKE_SEND_AUX_TCP", "1")
        if module.__name__ == "mooncake.engine":
            from warpserve.patches.mooncake.engine import TransferEngine

            vars(module)["TransferEngine"] = TransferEngine

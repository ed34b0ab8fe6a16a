"""A stand-in for the package ``mooncake``, of which engines use the transfer engine to send KV.

What would be read from one GPU and written to another does not exist. A transfer takes its bytes
over the network, in virtual time.
"""

from __future__ import annotations

import os
from types import ModuleType

from warpserve.patches.supplied import supply_where_missing


def supply() -> None:
    """From now on, this process imports the stand-in where the real package is not installed."""
    supply_where_missing(_MODULES)


def _fill_package(_module: ModuleType) -> None:
    # What is no KV, some kB of a request, is in the host's memory and really has to arrive.
    os.environ.setdefault("SGLANG_MOONCAKE_SEND_AUX_TCP", "1")


def _fill_engine(module: ModuleType) -> None:
    from warpserve.patches.mooncake.engine import TransferEngine

    vars(module)["TransferEngine"] = TransferEngine


_MODULES = {"mooncake": _fill_package, "mooncake.engine": _fill_engine}

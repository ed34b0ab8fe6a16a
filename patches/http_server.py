"""An idle HTTP server (uvicorn) that looks at its clock once a second, and not ten times.

Each look is a moment at which virtual time stands still for it: 36,000 in an idle hour.
"""

from __future__ import annotations

import asyncio
from types import ModuleType
from typing import Any

from warpserve.patches.versions import require_attributes

_TICK_S = 1.0
"""How often uvicorn renews the date that it answers with."""
_RENEW_DATE = 0
"""A count of ticks at which `on_tick` does."""


def look_each_second(module: ModuleType) -> None:
    """``module``: uvicorn.server. Its server ends up to a virtual second later when it is told to.

    Raises RuntimeError where it lacks a symbol.
    """
    require_attributes(module, ("Server",))
    require_attributes(module.Server, ("main_loop", "on_tick"))

    async def main_loop(server: Any) -> None:
        while not await server.on_tick(_RENEW_DATE):
            await asyncio.sleep(_TICK_S)

    module.Server.main_loop = main_loop

"""What SGLang's arguments say of its CUDA graphs: of those of decodes, and of those of prefills."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

Phase = Literal["decode", "prefill"]
PHASES: tuple[Phase, ...] = ("decode", "prefill")


def graph_sizes(said: Mapping[str, Any], phase: Phase) -> tuple[int, ...] | None:
    """Tokens that graphs are captured for; none: without graphs; None: not said.

    ``said``: ServerArgs by name, as a server logs them once it has worked them out.
    """
    config = _config(said, phase)
    if config is None:
        sizes = said.get("cuda_graph_bs") if phase == "decode" else None
        is_off = bool(said.get("disable_cuda_graph"))
    else:
        sizes, is_off = config.get("bs"), has_no_graphs(said, phase)
    if is_off:
        return ()
    return None if sizes is None else tuple(sorted(sizes))


def has_no_graphs(said: Mapping[str, Any], phase: Phase) -> bool:
    """Of that phase; False also where it is not said, as by versions without phases."""
    config = _config(said, phase)
    return config is not None and config.get("backend") == "disabled"


def _config(said: Mapping[str, Any], phase: Phase) -> Mapping[str, Any] | None:
    config = said.get("cuda_graph_config")
    found = config.get(phase) if isinstance(config, Mapping) else None
    return found if isinstance(found, Mapping) else None

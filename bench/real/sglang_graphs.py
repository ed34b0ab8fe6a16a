"""What SGLang's arguments say of its CUDA graphs: of those of decodes, and of those of prefills."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal


def graph_sizes(said: Mapping[str, Any]) -> tuple[int, ...] | None:
    """Requests of a decode that graphs are captured for; none: without graphs; None: not said.

    ``said``: ServerArgs by name, as a server logs them once it has worked them out.
    """
    decode = _config(said, "decode")
    if decode is None:
        sizes, is_off = said.get("cuda_graph_bs"), bool(said.get("disable_cuda_graph"))
    else:
        sizes, is_off = decode.get("bs"), has_no_graphs(said, "decode")
    if is_off:
        return ()
    return None if sizes is None else tuple(sorted(sizes))


def has_no_graphs(said: Mapping[str, Any], phase: Literal["decode", "prefill"]) -> bool:
    """Of that phase; False also where it is not said, as by versions without phases."""
    config = _config(said, phase)
    return config is not None and config.get("backend") == "disabled"


def _config(said: Mapping[str, Any], phase: str) -> Mapping[str, Any] | None:
    config = said.get("cuda_graph_config")
    found = config.get(phase) if isinstance(config, Mapping) else None
    return found if isinstance(found, Mapping) else None

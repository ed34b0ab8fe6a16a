"""The size of an engine's KV cache, as it says in its log."""

from __future__ import annotations

import re
from pathlib import Path

from warpserve.bench.config import ConfigError

_SIZES = (
    re.compile(r"GPU KV cache size: ([\d,]+) tokens"),  # vLLM
    re.compile(r"\bmax_total_num_tokens=(\d+),"),  # SGLang
)


def kv_tokens(log: str) -> int | None:
    """None where the log does not say.

    Of several lines the smallest: earlier vLLMs print one for each rank, and use as many blocks as
    all ranks have. Of SGLang's replicas each has as many.
    """
    found = [size for pattern in _SIZES for size in pattern.findall(log)]
    sizes = [int(size.replace(",", "")) for size in found]
    return min(sizes, default=None)


def kv_tokens_of_file(path: Path) -> int:
    """From a real server's log. Raises ConfigError where it does not say."""
    try:
        tokens = kv_tokens(path.read_text(errors="replace"))
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error}") from None
    if tokens is None:
        raise ConfigError(
            f"{path} has no line `GPU KV cache size: … tokens`, as vLLM prints it, nor one with "
            "`max_total_num_tokens=…`, as SGLang does"
        )
    return tokens

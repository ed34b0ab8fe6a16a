"""What warpserve keeps between runs and can make again."""

from __future__ import annotations

import os
from pathlib import Path

from platformdirs import user_cache_path


def cache_folder() -> Path:
    """``$WARPSERVE_CACHE``, or else the user's own cache folder, ``~/.cache/warpserve``."""
    chosen = os.environ.get("WARPSERVE_CACHE")
    return Path(chosen) if chosen else user_cache_path("warpserve")

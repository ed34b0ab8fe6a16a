"""The session that this process is a member of."""

from __future__ import annotations

import os
from pathlib import Path


def session_folder() -> Path:
    """Which nobody else may enter. Raises KeyError outside of a session."""
    return Path(os.environ["WARPSERVE_SESSION"])

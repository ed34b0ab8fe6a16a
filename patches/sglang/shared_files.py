"""The file in which SGLang's processes share their load: it stays behind when they have ended."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

from warpserve.patches.session import session_folder
from warpserve.patches.versions import require_attributes


def keep_in_session(module: ModuleType) -> None:
    """``module``: sglang.srt.managers.load_snapshot. Raises RuntimeError where it lacks a symbol.

    In the session's folder, which goes with the session, however that ends.
    """
    require_attributes(module, ("shm_path_for",))
    shm_path_for = module.shm_path_for

    def path_in_session(ipc_name: str) -> str:
        return str(session_folder() / Path(shm_path_for(ipc_name)).name)

    vars(module)["shm_path_for"] = path_in_session

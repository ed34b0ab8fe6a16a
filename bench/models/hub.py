"""A hub cache for one session, in which the shipped models are found under their hub ids.

Unmodified engines and clients then read ``meta-llama/Llama-3.1-8B-Instruct`` as if it had been
downloaded. Nothing ever is: they are told to be offline.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from warpserve.bench.models.shipped import shipped_models
from warpserve.bench.models.snapshots import repository, shipped_hub, snapshot


def hub_folder(folder: Path, env: Mapping[str, str]) -> dict[str, str]:
    """Fills ``folder``, made if need be, and returns what members need in their environment.

    What the user's own hub cache, as ``env`` names it, has of a model goes before the shipped
    files, and all else of it is found as well.
    """
    folder.mkdir(parents=True, exist_ok=True)
    own, shipped = user_hub(env), shipped_hub()
    for model in shipped_models():
        for hub_id in model.hub_ids:
            if snapshot(own, hub_id) is None:
                _link(repository(folder, hub_id), repository(shipped, hub_id))
    for entry in own.glob("*--*"):
        _link(folder / entry.name, entry.absolute())
    return {
        "HF_HUB_CACHE": str(folder.absolute()),
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "HF_DATASETS_OFFLINE": "1",
    }


def _link(link: Path, target: Path) -> None:
    """Unless it is there already."""
    if not link.is_symlink():
        link.symlink_to(target)


def user_hub(env: Mapping[str, str]) -> Path:
    """Where huggingface_hub keeps what it has downloaded, by its own rules."""
    if chosen := env.get("HF_HUB_CACHE") or env.get("HUGGINGFACE_HUB_CACHE"):
        return Path(chosen).expanduser()
    home = env.get("HF_HOME")
    cache = Path(env.get("XDG_CACHE_HOME") or Path(env.get("HOME", "~")) / ".cache")
    return (Path(home) if home else cache / "huggingface").expanduser() / "hub"

"""A model as a user names it: a shipped one, one of the user's hub cache, or a folder."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from warpserve.bench.models.hub import user_hub
from warpserve.bench.models.shipped import UnknownModel, shipped_model
from warpserve.bench.models.snapshots import shipped_hub, snapshot


@dataclass(frozen=True)
class Model:
    """``reference`` is what an engine is told in a session that has a ``hub_folder``."""

    reference: str
    folder: Path
    """Its files, on this machine."""

    def config(self) -> dict[str, Any]:
        """Its ``config.json``."""
        config: dict[str, Any] = json.loads((self.folder / "config.json").read_text())
        return config

    def generation(self) -> dict[str, Any]:
        """Its ``generation_config.json``; empty where it has none."""
        path = self.folder / "generation_config.json"
        found: dict[str, Any] = json.loads(path.read_text()) if path.is_file() else {}
        return found

    def tokenizer(self) -> Tokenizer:
        """Raises UnknownModel where its folder has none that can be read."""
        path = self.folder / "tokenizer.json"
        if not path.is_file():
            raise UnknownModel(f"{self.folder} has no tokenizer.json: put one there")
        try:
            return Tokenizer.from_file(str(path))
        except Exception as error:  # the library has no narrower one
            raise UnknownModel(
                f"{path} is no tokenizer of the library tokenizers: {error}"
            ) from None


def model_named(name: str) -> Model:
    """By local folder, by hub id in the user's own cache, or by a shipped model's name, alias or
    hub id. Raises UnknownModel."""
    folder = Path(name).expanduser()
    if folder.is_dir():
        return _local(folder)
    own = user_hub(os.environ)
    if "/" in name and (found := snapshot(own, name)) is not None:
        return Model(name, found)
    shipped = shipped_model(name)
    hub_id = next((known for known in shipped.hub_ids if known.lower() == name.lower()), None)
    reference = hub_id or shipped.hub_ids[0]
    files = snapshot(own, reference) or snapshot(shipped_hub(), reference)
    assert files is not None, "every shipped hub id has a snapshot"
    return Model(reference, files)


def _local(folder: Path) -> Model:
    if not (folder / "config.json").is_file():
        raise UnknownModel(f"{folder} has no config.json, which every model's folder has")
    return Model(str(folder.absolute()), folder.absolute())

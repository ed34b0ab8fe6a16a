"""The shipped models as a Hugging Face cache has them, made once in warpserve's cache folder.

    hub-<digest>/
      tokenizers/llama-3-128256/tokenizer.json, tokenizer_config.json
      models--ORG--NAME/
        refs/main                                      the snapshot's name
        snapshots/<sha-1 of the configuration>/config.json, generation_config.json, and the
                                               tokenizer's files as links

The digest is over all that the files follow from: another version makes a folder of its own.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from functools import cache
from pathlib import Path

from warpserve.bench.models.shipped import DATA, Publication, ShippedModel, shipped_models
from warpserve.bench.models.tokenizer import tokenizer_families, write_tokenizer
from warpserve.cache import cache_folder

_SOURCES = ("*.toml", "words.txt", "configs/*.json", "codebook.py", "tokenizer.py", "snapshots.py")


def shipped_hub() -> Path:
    """The folder, made if it is not there yet; whoever finds it finds all of it."""
    folder = cache_folder() / "models" / f"hub-{_digest()}"
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        _make(folder)
    return folder


def repository(hub: Path, hub_id: str) -> Path:
    """The folder of one hub id in a cache, whether it is there or not."""
    return hub / f"models--{hub_id.replace('/', '--')}"


def snapshot(hub: Path, hub_id: str) -> Path | None:
    """The files of a hub id's main revision, or None where a cache lacks its configuration."""
    folder = repository(hub, hub_id)
    try:
        found = folder / "snapshots" / (folder / "refs" / "main").read_text().strip()
    except OSError:
        return None
    return found if (found / "config.json").is_file() else None


@cache
def _digest() -> str:
    digest = hashlib.sha256()
    for pattern in _SOURCES:
        for source in sorted(DATA.glob(pattern)):
            digest.update(f"{source.relative_to(DATA)}\0".encode() + source.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def _make(folder: Path) -> None:
    making = Path(tempfile.mkdtemp(prefix=f"{folder.name}-", dir=folder.parent))
    try:
        for model in shipped_models():
            for publication in model.publication:
                _write(making, model, publication)
        making.chmod(0o755)
        making.rename(folder)
    except OSError:
        if not folder.is_dir():  # else another process was first
            raise
    finally:
        shutil.rmtree(making, ignore_errors=True)


def _write(hub: Path, model: ShippedModel, publication: Publication) -> None:
    config = model.config_of(publication)
    tokenizer = _tokenizer(hub, model.tokenizer_of(publication), config["vocab_size"])
    files = {
        "config.json": json.dumps(config, indent=2) + "\n",
        "generation_config.json": json.dumps(publication.generation, indent=2) + "\n",
    }
    revision = hashlib.sha1("".join(files.values()).encode()).hexdigest()
    for hub_id in publication.hub_ids:
        folder = repository(hub, hub_id)
        (folder / "refs").mkdir(parents=True)
        (folder / "refs" / "main").write_text(revision)
        target = folder / "snapshots" / revision
        target.mkdir(parents=True)
        for name, text in files.items():
            (target / name).write_text(text)
        for file in tokenizer.iterdir():
            (target / file.name).symlink_to(os.path.relpath(file, target))


def _tokenizer(hub: Path, family: str, total: int) -> Path:
    folder = hub / "tokenizers" / f"{family}-{total}"
    if not folder.is_dir():
        folder.mkdir(parents=True)
        write_tokenizer(folder, tokenizer_families()[family], total)
    return folder

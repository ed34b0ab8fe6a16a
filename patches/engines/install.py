"""Installing and removing engine environments, with pip into a venv."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from filelock import FileLock

from warpserve.cache import cache_folder
from warpserve.cuda_shim.torch_ops import build as torch_ops
from warpserve.patches.engines.requirement import EngineError, EngineRequirement, KnownVersion
from warpserve.patches.engines.store import Engine, EngineStore


def install(
    requirement: EngineRequirement,
    *,
    store: EngineStore,
    python: Path | None = None,
    insist: bool = False,
) -> Engine:
    """The environment of ``requirement``, installed if it is not there yet.

    ``python``: the interpreter that it is made with; by default this one, or the first in PATH that
    the engine has wheels for. Raises EngineError where it can't be installed, naming pip's log,
    which stays beside the environment's place; InstallationError where what its torch needs on
    virtual GPUs can't be built.
    """
    with _locked(store, requirement):
        installed = store.find(requirement)
        if installed is not None:
            return installed
        known = requirement.known if insist else requirement.require_known()
        base = python or _interpreter(known)
        _require_space(store.folder, known)
        engine = _install(requirement, base, store)
        torch_ops.prepare(engine.python, cache_folder())
        store.add(engine)
        return engine


def remove(requirement: EngineRequirement, *, store: EngineStore) -> None:
    """Raises EngineError where it is not installed."""
    with _locked(store, requirement):
        engine = store.get(requirement)
        store.forget(engine)
        shutil.rmtree(engine.path)
        log_of(requirement, store).unlink(missing_ok=True)


def log_of(requirement: EngineRequirement, store: EngineStore) -> Path:
    return store.folder / f"{store.path_of(requirement).name}.log"


def _locked(store: EngineStore, requirement: EngineRequirement) -> FileLock:
    store.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return FileLock(store.folder / f"{store.path_of(requirement).name}.lock")


def _install(requirement: EngineRequirement, base: Path, store: EngineStore) -> Engine:
    path = store.path_of(requirement)
    shutil.rmtree(path, ignore_errors=True)  # what an interrupted installation left
    engine = Engine(
        engine=requirement.engine,
        version=requirement.version,
        python=path / "bin" / "python",
        path=path,
    )
    log = log_of(requirement, store)
    log.unlink(missing_ok=True)
    _logged([base, "-m", "venv", path], log)
    pip = [str(engine.python), "-m", "pip", "install", "--disable-pip-version-check"]
    _logged([*pip, requirement.for_pip], log)
    return engine


def _logged(command: Sequence[str | Path], log: Path) -> None:
    with log.open("a") as output:
        code = subprocess.run(command, stdout=output, stderr=subprocess.STDOUT).returncode
    if code != 0:
        said = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
        raise EngineError(
            f"{' '.join(map(str, command))} failed: {said[-1] if said else code}; all of it: {log}"
        )


def _interpreter(known: KnownVersion | None) -> Path:
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    if known is None or own in known.pythons:
        return Path(sys.executable)
    for version in reversed(known.pythons):
        if found := shutil.which(f"python{version}"):
            return Path(found)
    raise EngineError(
        f"it needs Python {' or '.join(known.pythons)}; this is {own}, and none of "
        "them is in PATH: install one, or name one with --python"
    )


def _require_space(folder: Path, known: KnownVersion | None) -> None:
    free_bytes = shutil.disk_usage(folder).free
    if known is not None and free_bytes < known.disk_bytes:
        raise EngineError(
            f"{folder} has {free_bytes / 1e9:.1f} GB free and the environment takes about "
            f"{known.disk_bytes / 1e9:.0f} GB: make room, or set WARPSERVE_CACHE to another disk"
        )

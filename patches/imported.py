"""Something to do after a module was imported, now or whenever that happens."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

Action = Callable[[ModuleType], None]


def after_import(name: str, action: Action) -> None:
    """Calls ``action`` with the module, once. What it raises is raised by the ``import``."""
    if (module := sys.modules.get(name)) is not None:
        action(module)
    else:
        _Finder.instance().actions.setdefault(name, []).append(action)


def after_import_moved(name: str, before: str, action: Action) -> None:
    """Likewise, with a module that older versions have under another name. Newer ones may use that
    name for something else, with which nothing is done.
    """

    def act_where_not_moved(module: ModuleType) -> None:
        if not _exists(name):
            action(module)

    after_import(name, action)
    after_import(before, act_where_not_moved)


def _exists(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:  # of a package around it
        return False


class _Finder(MetaPathFinder):
    """Asks the other finders, and adds the actions to what they found."""

    _instance: _Finder | None = None

    def __init__(self) -> None:
        self.actions: dict[str, list[Action]] = {}
        self._asking: set[str] = set()

    @classmethod
    def instance(cls) -> _Finder:
        if cls._instance is None:
            cls._instance = cls()
            sys.meta_path.insert(0, cls._instance)
        return cls._instance

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,  # noqa: ARG002
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        if fullname not in self.actions or fullname in self._asking:
            return None
        self._asking.add(fullname)
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self._asking.remove(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, self)
        return spec

    def act_on(self, module: ModuleType) -> None:
        for action in self.actions.pop(module.__name__, ()):
            action(module)


class _Loader(Loader):
    """A loader with actions behind it; else as the one it stands for.

    The finder keeps the actions until then: a spec may be asked for without being loaded.
    """

    def __init__(self, loader: Loader, finder: _Finder) -> None:
        self._loader = loader
        self._finder = finder

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        self._finder.act_on(module)

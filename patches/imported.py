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
        _Finder.instance().actions[name] = action


class _Finder(MetaPathFinder):
    """Asks the other finders, and adds the action to what they found."""

    _instance: _Finder | None = None

    def __init__(self) -> None:
        self.actions: dict[str, Action] = {}

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
        action = self.actions.pop(fullname, None)
        if action is None:
            return None
        spec = importlib.util.find_spec(fullname)
        if spec is None or spec.loader is None:
            self.actions[fullname] = action
            return spec
        spec.loader = _Loader(spec.loader, action)
        return spec


class _Loader(Loader):
    """A loader with an action behind it; else as the one it stands for."""

    def __init__(self, loader: Loader, action: Action) -> None:
        self._loader = loader
        self._action = action

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        self._action(module)

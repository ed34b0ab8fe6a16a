"""Something to be done as soon as a module has been imported, without importing it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType

Action = Callable[[ModuleType], None]


def when_imported(name: str, action: Action) -> None:
    """Calls ``action`` with the module ``name``: now if it is imported, else right after it is.

    What ``action`` raises is raised by the import.
    """
    module = sys.modules.get(name)
    if module is not None:
        action(module)
    else:
        sys.meta_path.insert(0, _Finder(name, action))


class _Finder(MetaPathFinder):
    """Stands first in the path until its module is found."""

    def __init__(self, name: str, action: Action) -> None:
        self._name = name
        self._action = action

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,  # noqa: ARG002
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        if fullname != self._name:
            return None
        sys.meta_path.remove(self)
        spec = find_spec(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, self._action)
        return spec


class _Loader(Loader):
    """The module's own loader, and then the action."""

    def __init__(self, own: Loader, action: Action) -> None:
        self._own = own
        self._action = action

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._own.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._own.exec_module(module)
        self._action(module)

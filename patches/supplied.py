"""Packages that a process imports from here."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

Modules = Mapping[str, Callable[[ModuleType], None]]
"""What fills each module, by its full name. A package is there together with its modules."""


def supply_where_missing(modules: Modules) -> None:
    """From now on, this process imports these where no others are installed."""
    if not _is_supplied(modules):
        sys.meta_path.append(_Finder(modules))


def supply_instead(modules: Modules) -> None:
    """The same, whatever is installed."""
    if not _is_supplied(modules):
        sys.meta_path.insert(0, _Finder(modules))


def _is_supplied(modules: Modules) -> bool:
    return any(isinstance(f, _Finder) and f.modules is modules for f in sys.meta_path)


class _Finder(MetaPathFinder):
    def __init__(self, modules: Modules) -> None:
        self.modules = modules

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,  # noqa: ARG002
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        if fullname not in self.modules:
            return None
        is_package = any(name.startswith(f"{fullname}.") for name in self.modules)
        return ModuleSpec(fullname, _Loader(self.modules[fullname]), is_package=is_package)


class _Loader(Loader):
    def __init__(self, fill: Callable[[ModuleType], None]) -> None:
        self._fill = fill

    def exec_module(self, module: ModuleType) -> None:
        self._fill(module)

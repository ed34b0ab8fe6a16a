"""Marks the tests that show a feature of the engine at work; docs/compatibility.md lists them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

_Test = TypeVar("_Test", bound=Callable[..., Any])


@dataclass(frozen=True)
class Feature:
    name: str
    flags: str
    evidence: str
    test: str
    """MODULE::FUNCTION, as the matrix of versions names it."""


FEATURES: list[Feature] = []


def feature(name: str, flags: str) -> Callable[[_Test], _Test]:
    """``flags``: the engine's own that ask for it. The test's docstring says what shows it."""

    def note(test: _Test) -> _Test:
        assert test.__doc__, f"{test.__name__} does not say what shows {name}"
        module = test.__module__.rpartition(".")[2]
        evidence = " ".join(test.__doc__.split())
        FEATURES.append(Feature(name, flags, evidence, f"{module}::{test.__name__}"))
        return test

    return note

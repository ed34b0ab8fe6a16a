"""Fixtures of the end-to-end tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from hypothesis import settings

from tests import harness

# Without a deadline, which counts host time. The same examples every time, so that a red test says
# something of the change; --hypothesis-profile=searching looks for new ones.
settings.register_profile("repeatable", deadline=None, derandomize=True)
settings.register_profile("searching", deadline=None)
settings.load_profile("repeatable")


@pytest.fixture
def warpserve() -> Iterator[harness.Warpserve]:
    """Runs `warpserve`; fails the test where a session leaves a process, a file or a socket."""
    runner = harness.Warpserve()
    try:
        yield runner
        left = runner.leftovers()
    finally:
        runner.close()
    assert left == []


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of the sessions that a test starts in its own process, empty."""
    with harness.short_folder() as folder:
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
        yield folder


@pytest.fixture(scope="session")
def native_program(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str | Path], Path]:
    """Compiles C or C++ to a dynamic program."""
    folder = tmp_path_factory.mktemp("native")
    return lambda source: harness.compile_native(folder, source)


@pytest.fixture(scope="session")
def static_program(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str | Path], Path]:
    """Compiles C or C++ to a static program: one that can load no library."""
    folder = tmp_path_factory.mktemp("static")
    return lambda source: harness.compile_native(folder, source, "-static")


@pytest.fixture
def busy_cores() -> Callable[[], AbstractContextManager[None]]:
    """A context in which every core is loaded from outside of the session."""
    return harness.busy_cores

"""One server for the tests of bad input and of bug reports: an engine start is what they cost."""

from __future__ import annotations

import pytest

from tests.engine.pressure import Pressure, under_pressure
from tests.engine.sglang_pressure import sglang_under_pressure


@pytest.fixture(scope="session")
def pressure(tmp_path_factory: pytest.TempPathFactory) -> Pressure:
    """What a server with a small KV cache did with requests of many kinds."""
    return under_pressure(tmp_path_factory.mktemp("pressure"))


@pytest.fixture(scope="session")
def sglang_pressure(tmp_path_factory: pytest.TempPathFactory) -> Pressure:
    """The same of SGLang."""
    return sglang_under_pressure(tmp_path_factory.mktemp("sglang-pressure"))

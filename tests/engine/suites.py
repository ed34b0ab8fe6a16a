"""The engines whose tests lie here, each with the versions that its patches are made for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.engine import sessions, sglang_served
from warpserve.patches import sglang, vllm

_RESULTS = Path(__file__).parents[2] / "docs" / "results"


@dataclass(frozen=True)
class Suite:
    """The tests of one engine."""

    engine: str
    title: str
    versions: tuple[str, ...]
    usual: str
    """The version on which `make test` and `make thorough` run them."""
    variable: str
    """The environment variable that says another one, as ENGINE==VERSION."""

    @property
    def kept(self) -> Path:
        """What became of them on each version."""
        return _RESULTS / f"{self.engine}-matrix.csv"

    def has(self, test: str) -> bool:
        """``test``: MODULE::FUNCTION, or MODULE."""
        return test.startswith("test_sglang") == (self.engine == "sglang")

    @property
    def files(self) -> list[Path]:
        found = sorted(Path(__file__).parent.glob("test_*.py"))
        return [file for file in found if self.has(file.stem)]


VLLM = Suite("vllm", "vLLM", vllm.VERSIONS, "0.24.0", sessions.ENGINE_VARIABLE)
SGLANG = Suite("sglang", "SGLang", sglang.VERSIONS, "0.5.23", sglang_served.ENGINE_VARIABLE)
SUITES = (VLLM, SGLANG)


def suite_of(engine: str) -> Suite:
    """Raises KeyError for another engine."""
    return {suite.engine: suite for suite in SUITES}[engine]

"""`python -m tests.engine.compatibility`: docs/compatibility.md, from the tests of features."""

from __future__ import annotations

from pathlib import Path

from tests.engine import (
    outcomes,
    test_features,
    test_reports,
    test_sglang_disaggregation,
    test_sglang_features,
    test_sglang_hicache,
    test_sglang_speculation,
)
from tests.engine.features import FEATURES, Feature
from tests.engine.outcomes import Cell, Outcome
from warpserve.patches.sglang import VERSIONS as SGLANG_VERSIONS
from warpserve.patches.sglang.support import REFUSALS as SGLANG_REFUSALS
from warpserve.patches.vllm import VERSIONS
from warpserve.patches.vllm.support import REFUSALS

PAGE = Path(__file__).parents[2] / "docs" / "compatibility.md"
_MODULES = (
    test_features,
    test_reports,
    test_sglang_features,
    test_sglang_speculation,
    test_sglang_hicache,
    test_sglang_disaggregation,
)
SUITE = "0.24.0"
"""The version on which `make test` runs all of them."""

_HEAD = f"""# What works of vLLM

Written from the tests by `python -m tests.engine.compatibility`. `make test` runs each of them on
the real vLLM {SUITE}, `make matrix` on all versions that the patches are made for:
{", ".join(VERSIONS)}. Another version is refused, unless `WARPSERVE_INSIST=1` is set.
"""


def document() -> str:
    """The page, from what the tests of the engine mark, what `make matrix` has kept, and what the
    patches refuse.
    """
    assert FEATURES, [module.__name__ for module in _MODULES]
    of_vllm = [row for row in FEATURES if not _is_of_sglang(row)]
    cells = outcomes.read()
    lines = [_HEAD, "| feature | flags | what its test shows | on |", "|---|---|---|---|"]
    lines += [
        f"| {row.name} | `{row.flags}` | {row.evidence} | {_versions(row, cells)} |"
        for row in of_vllm
    ]
    lines += ["", "## Refused at start", ""]
    lines += [f"- {what}" for _, what in REFUSALS]
    lines += ["", "## All tests, by version", "", _MATRIX]
    lines += [f"| tests/engine | {' | '.join(VERSIONS)} |", f"|---|{'---|' * len(VERSIONS)}"]
    lines += [
        f"| `{module}.py` | {' | '.join(shares)} |" for module, shares in outcomes.by_module(cells)
    ]
    return "\n".join([*lines, "", *_sglang()]) + "\n"


def _sglang() -> list[str]:
    lines = [_SGLANG_HEAD, "| feature | flags | what its test shows |", "|---|---|---|"]
    lines += [
        f"| {row.name} | `{row.flags}` | {row.evidence} |" for row in FEATURES if _is_of_sglang(row)
    ]
    return [*lines, "", "## Refused at start", "", *(f"- {what}" for _, what in SGLANG_REFUSALS)]


def _is_of_sglang(row: Feature) -> bool:
    return row.test.startswith("test_sglang")


_SGLANG_HEAD = f"""# What works of SGLang

`make test` runs each of these on the real SGLang {", ".join(SGLANG_VERSIONS)}. Another version is
refused, unless `WARPSERVE_INSIST=1` is set.
"""


_MATRIX = """\
How many passed when `make matrix` last ran on a version (docs/results/vllm-matrix.csv names them).
"""


def _versions(feature: Feature, cells: list[Cell]) -> str:
    """On which versions its test has passed, and on which it has failed."""
    found = {cell.version: cell.outcome for cell in cells if cell.test == feature.test}
    passed = [v for v in VERSIONS if v == SUITE or found.get(v) is Outcome.PASSED]
    failed = [f"not {v}" for v in VERSIONS if found.get(v) is Outcome.FAILED]
    return ", ".join(passed + failed)


if __name__ == "__main__":
    PAGE.write_text(document())

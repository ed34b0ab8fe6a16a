"""`python -m tests.engine.compatibility`: docs/compatibility.md, from the tests of features."""

from __future__ import annotations

from pathlib import Path

from tests.engine import (
    outcomes,
    test_disaggregation,
    test_features,
    test_reports,
    test_sglang_disaggregation,
    test_sglang_features,
    test_sglang_hicache,
    test_sglang_speculation,
)
from tests.engine.features import FEATURES, Feature
from tests.engine.outcomes import Cell, Outcome
from tests.engine.suites import SUITES, Suite
from warpserve.patches.sglang.support import REFUSALS as SGLANG_REFUSALS
from warpserve.patches.vllm.support import REFUSALS as VLLM_REFUSALS

PAGE = Path(__file__).parents[2] / "docs" / "compatibility.md"
_MODULES = (
    test_disaggregation,
    test_features,
    test_reports,
    test_sglang_features,
    test_sglang_speculation,
    test_sglang_hicache,
    test_sglang_disaggregation,
)
_REFUSED = {
    "vllm": [what for _, what in VLLM_REFUSALS],
    "sglang": [what for _, what in SGLANG_REFUSALS],
}


def document() -> str:
    """The page, from what the tests of the engines mark, what `make matrix` has kept, and what the
    patches refuse.
    """
    assert FEATURES, [module.__name__ for module in _MODULES]
    return "\n\n".join("\n".join(_part(suite)) for suite in SUITES) + "\n"


def _part(suite: Suite) -> list[str]:
    cells, versions = outcomes.read(suite.kept), suite.versions
    return [
        f"# What works of {suite.title}",
        "",
        "Written from the tests by `python -m tests.engine.compatibility`. `make test` and",
        f"`make thorough` run them on the real {suite.title} {suite.usual}, `make matrix` on all",
        f"versions that the patches are made for: {', '.join(versions)}. Another version is",
        "refused, unless `WARPSERVE_INSIST=1` is set.",
        "",
        "| feature | flags | what its test shows | on |",
        "|---|---|---|---|",
        *(_row(row, suite, cells) for row in FEATURES if suite.has(row.test)),
        "",
        "## Refused at start",
        "",
        *(f"- {what}" for what in _REFUSED[suite.engine]),
        "",
        "## All tests, by version",
        "",
        "How many passed when `make matrix` last ran on a version",
        f"(docs/results/{suite.kept.name} names them).",
        "",
        f"| tests/engine | {' | '.join(versions)} |",
        f"|---|{'---|' * len(versions)}",
        *(
            f"| `{module}.py` | {' | '.join(shares)} |"
            for module, shares in outcomes.by_module(cells, versions)
        ),
    ]


def _row(feature: Feature, suite: Suite, cells: list[Cell]) -> str:
    on = _versions(feature, suite, cells)
    return f"| {feature.name} | `{feature.flags}` | {feature.evidence} | {on} |"


def _versions(feature: Feature, suite: Suite, cells: list[Cell]) -> str:
    """On which versions its test has passed, and on which it has failed."""
    found = {cell.version: cell.outcome for cell in cells if cell.test == feature.test}
    passed = [v for v in suite.versions if v == suite.usual or found.get(v) is Outcome.PASSED]
    failed = [f"not {v}" for v in suite.versions if found.get(v) is Outcome.FAILED]
    return ", ".join(passed + failed)


if __name__ == "__main__":
    PAGE.write_text(document())

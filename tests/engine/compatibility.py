"""`python -m tests.engine.compatibility`: docs/compatibility.md, from the tests of features."""

from __future__ import annotations

from pathlib import Path

from tests.engine import test_features
from tests.engine.features import FEATURES
from warpserve.patches.vllm import VERSIONS
from warpserve.patches.vllm.support import REFUSALS

PAGE = Path(__file__).parents[2] / "docs" / "compatibility.md"

_HEAD = f"""# What works of vLLM

Written from the tests by `python -m tests.engine.compatibility`; each test runs the real vLLM
0.24.0. The patches are made for vLLM {", ".join(VERSIONS)}; another version is refused, unless
`WARPSERVE_INSIST=1` is set.
"""


def document() -> str:
    """The page, from what tests/engine/test_features.py marks and what the patches refuse."""
    assert FEATURES, test_features.__name__
    lines = [_HEAD, "| feature | flags | what its test shows |", "|---|---|---|"]
    lines += [f"| {row.name} | `{row.flags}` | {row.evidence} |" for row in FEATURES]
    lines += ["", "## Refused at start", ""]
    lines += [f"- {what}" for _, what in REFUSALS]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(document())

"""Which part of warpserve knows which: no engine in clocks, no clock in predictors."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import warpserve

ROOT = Path(warpserve.__file__).parent
KNOWS = {
    "timekeeper": set[str](),
    "cuda_shim": {"timekeeper"},
    "predictors": {"cuda_shim"},
    "patches": {"cuda_shim", "predictors", "timekeeper"},
    "bench": {"cuda_shim", "patches", "predictors", "timekeeper"},
}
"""Parts that a part may import from, beside itself and what all share."""


def imported_parts(part: str) -> set[str]:
    names = set[str]()
    for file in (ROOT / part).rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom):
                names.add(node.module or "")
            elif isinstance(node, ast.Import):
                names.update(alias.name for alias in node.names)
    found = {name.split(".")[1] for name in names if name.startswith("warpserve.")}
    return (found & KNOWS.keys()) - {part}


@pytest.mark.parametrize("part", KNOWS)
def test_a_part_knows_only_those_below_it(part: str) -> None:
    assert imported_parts(part) <= KNOWS[part]

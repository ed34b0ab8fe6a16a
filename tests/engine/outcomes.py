"""What became of the tests of an engine on each of its versions: docs/results/ENGINE-matrix.csv."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree


class Outcome(Enum):
    """From best to worst."""

    PASSED = "passed"
    SKIPPED = "skipped"
    FAILED = "failed"


class Cell(NamedTuple):
    """A test on a version; the worst case of it where it has several."""

    version: str
    test: str
    """MODULE::FUNCTION."""
    outcome: Outcome


def read(kept: Path) -> list[Cell]:
    """What is kept there."""
    if not kept.exists():
        return []
    with kept.open(newline="") as file:
        return [
            Cell(row["version"], row["test"], Outcome(row["outcome"]))
            for row in csv.DictReader(file)
        ]


def keep(kept: Path, found: Iterable[Cell]) -> list[Cell]:
    """Puts what was ``found`` in the place of older outcomes; returns all that is now kept."""
    by_name = {(cell.version, cell.test): cell for cell in [*read(kept), *found]}
    cells = [by_name[name] for name in sorted(by_name)]
    with kept.open("w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(Cell._fields)
        table.writerows((cell.version, cell.test, cell.outcome.value) for cell in cells)
    return cells


def of_report(version: str, report: ElementTree.Element) -> list[Cell]:
    """``report``: pytest's, in JUnit's form."""
    worst: dict[str, Outcome] = {}
    order = list(Outcome)
    for case in report.iter("testcase"):
        module = case.attrib["classname"].rpartition(".")[2]
        test = f"{module}::{case.attrib['name'].partition('[')[0]}"
        worst[test] = max(worst.get(test, Outcome.PASSED), _outcome(case), key=order.index)
    return [Cell(version, test, outcome) for test, outcome in worst.items()]


def by_module(cells: Iterable[Cell], versions: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """Of each module, what its tests came to on each of the versions, such as ``12 of 13``."""
    found: dict[str, dict[str, Counter[Outcome]]] = {}
    for cell in cells:
        module = cell.test.partition("::")[0]
        found.setdefault(module, {}).setdefault(cell.version, Counter())[cell.outcome] += 1
    for module, by_version in sorted(found.items()):
        yield module, [_share(by_version.get(version, Counter())) for version in versions]


def _outcome(case: ElementTree.Element) -> Outcome:
    parts = {part.tag for part in case}
    if parts & {"failure", "error"}:
        return Outcome.FAILED
    return Outcome.SKIPPED if "skipped" in parts else Outcome.PASSED


def _share(outcomes: Counter[Outcome]) -> str:
    return f"{outcomes[Outcome.PASSED]} of {outcomes.total()}" if outcomes else "not run"

"""`python -m tests.engine.matrix [ENGINE==VERSION...]`: the tests of the engines, on each version.

Installs the versions that are not there (minutes and about 9 GB each), and runs all tests of the
engine in this folder, or those that ``-k`` names, on one after the other. Prints a table for each
engine, keeps the outcomes in docs/results/ENGINE-matrix.csv, and writes docs/compatibility.md,
which has them, too.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from xml.etree import ElementTree

from rich import box
from rich.table import Table

from tests.engine import compatibility, outcomes
from tests.engine.suites import SUITES, Suite, suite_of
from warpserve.console import console
from warpserve.patches.engines import EngineRequirement, EngineStore, install

ALL = tuple(
    EngineRequirement(suite.engine, version) for suite in SUITES for version in suite.versions
)


def main() -> None:
    options = _options()
    engines = options.engines or ALL
    exit_codes = [_test(engine, options.tests) for engine in engines]
    for suite in SUITES:
        if suite.engine in {engine.engine for engine in engines}:
            console().print(_table(suite))
    compatibility.PAGE.write_text(compatibility.document())
    sys.exit(max(exit_codes))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "engines",
        nargs="*",
        type=EngineRequirement.parse,
        metavar="ENGINE==VERSION",
        help=", ".join(map(str, ALL)),
    )
    parser.add_argument("-k", dest="tests", help="only these, as pytest's -k says it")
    return parser.parse_args()


def _test(engine: EngineRequirement, tests: str | None) -> int:
    """pytest's exit code."""
    install(engine, store=EngineStore())
    suite = suite_of(engine.engine)
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [
            sys.executable, "-m", "pytest", *map(str, suite.files), f"--junit-xml={report}",
            "-m", "thorough or not thorough",
            *(("-k", tests) if tests else ()),
        ]  # fmt: skip
        done = subprocess.run(command, env=os.environ | {suite.variable: str(engine)})
        if report.exists():
            found = outcomes.of_report(engine.version, ElementTree.parse(report).getroot())
            outcomes.keep(suite.kept, found)
        return done.returncode


def _table(suite: Suite) -> Table:
    table = Table(suite.title, *suite.versions, box=box.SIMPLE_HEAD)
    for module, shares in outcomes.by_module(outcomes.read(suite.kept), suite.versions):
        table.add_row(module, *shares)
    return table


if __name__ == "__main__":
    main()

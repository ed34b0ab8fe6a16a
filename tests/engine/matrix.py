"""`python -m tests.engine.matrix [VERSION...]`: the tests of the engine, on each version of vLLM.

Installs the versions that are not there (minutes and about 9 GB each), and runs all tests of this
folder, or those that ``-k`` names, on one after the other. Prints a table, keeps the outcomes in
docs/results/vllm-matrix.csv, and writes docs/compatibility.md, which has them, too.
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
from tests.engine.sessions import ENGINE_VARIABLE
from warpserve.console import console
from warpserve.patches.engines import EngineRequirement, EngineStore, install
from warpserve.patches.vllm import VERSIONS


def main() -> None:
    options = _options()
    exit_codes = [_test(version, options.tests) for version in options.versions or VERSIONS]
    table = Table("tests", *VERSIONS, box=box.SIMPLE_HEAD)
    for module, shares in outcomes.by_module(outcomes.read()):
        table.add_row(module, *shares)
    console().print(table)
    compatibility.PAGE.write_text(compatibility.document())
    sys.exit(max(exit_codes))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("versions", nargs="*", metavar="VERSION", help=", ".join(VERSIONS))
    parser.add_argument("-k", dest="tests", help="only these, as pytest's -k says it")
    return parser.parse_args()


def _test(version: str, tests: str | None) -> int:
    """pytest's exit code."""
    engine = EngineRequirement.parse(f"vllm=={version}")
    install(engine, store=EngineStore())
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [
            sys.executable, "-m", "pytest", str(Path(__file__).parent), f"--junit-xml={report}",
            *(("-k", tests) if tests else ()),
        ]  # fmt: skip
        done = subprocess.run(command, env=os.environ | {ENGINE_VARIABLE: str(engine)})
        if report.exists():
            found = outcomes.of_report(version, ElementTree.parse(report).getroot())
            outcomes.keep(found)
        return done.returncode


if __name__ == "__main__":
    main()

"""docs/compatibility.md is what the tests of features say, on each version of the engine."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

from tests.engine import outcomes
from tests.engine.compatibility import PAGE, document
from tests.engine.features import FEATURES
from tests.engine.outcomes import Cell, Outcome
from tests.engine.suites import SUITES

_REPORT = """
<testsuites><testsuite>
  <testcase classname="tests.engine.test_vllm" name="test_one[a]" />
  <testcase classname="tests.engine.test_vllm" name="test_one[b]"><failure /></testcase>
  <testcase classname="tests.engine.test_vllm" name="test_two"><skipped /></testcase>
</testsuite></testsuites>
"""


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text() == document(), "run `python -m tests.engine.compatibility`"


def test_the_worst_case_of_a_test_counts() -> None:
    assert outcomes.of_report("0.19.0", ElementTree.fromstring(_REPORT)) == [
        Cell("0.19.0", "test_vllm::test_one", Outcome.FAILED),
        Cell("0.19.0", "test_vllm::test_two", Outcome.SKIPPED),
    ]


def test_what_was_found_last_is_kept(tmp_path: Path) -> None:
    kept = tmp_path / "kept.csv"
    first = Cell("0.24.0", "test_vllm::test_one", Outcome.FAILED)
    other = Cell("0.19.0", "test_vllm::test_one", Outcome.FAILED)
    again = first._replace(outcome=Outcome.PASSED)
    outcomes.keep(kept, [first, other])
    assert outcomes.keep(kept, [again]) == outcomes.read(kept) == [other, again]
    assert list(outcomes.by_module(outcomes.read(kept), ("0.19.0", "0.24.0", "0.33.0"))) == [
        ("test_vllm", ["0 of 1", "1 of 1", "not run"])
    ]


def test_each_test_is_of_one_engine() -> None:
    files = [file for suite in SUITES for file in suite.files]
    assert sorted(files) == sorted(Path(outcomes.__file__).parent.glob("test_*.py"))
    assert all(
        feature.test.partition("::")[0] in {file.stem for file in files} for feature in FEATURES
    )
    assert all(suite.usual in suite.versions for suite in SUITES)

"""docs/compatibility.md is what the tests of features say."""

from __future__ import annotations

from tests.engine.compatibility import PAGE, document


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text() == document(), "run `python -m tests.engine.compatibility`"

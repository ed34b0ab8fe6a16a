"""Lines of a log whose writer may have been killed."""

from __future__ import annotations

from warpserve.json_lines import complete_lines


def test_a_last_line_that_breaks_off_is_none() -> None:
    assert complete_lines('{"a": 1}\n{"a": ') == ['{"a": 1}']
    assert complete_lines('{"a": ') == []
    assert complete_lines("") == []


def test_a_whole_last_line_counts_with_or_without_an_end() -> None:
    assert complete_lines('{"a": 1}\n{"a": 2}') == ['{"a": 1}', '{"a": 2}']
    assert complete_lines('{"a": 1}\n{"a": 2}\n') == ['{"a": 1}', '{"a": 2}']


def test_other_broken_lines_stay_for_their_reader_to_name() -> None:
    assert complete_lines('{"a": \n{"a": 2}\n') == ['{"a": ', '{"a": 2}']
    assert complete_lines('{"a": 1}\n{"a": \n') == ['{"a": 1}', '{"a": ']

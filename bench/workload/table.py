"""Rows of a CSV or JSON-lines file, with the place of each value for messages."""

from __future__ import annotations

import csv
import gzip
import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any, NoReturn, TextIO, cast

from warpserve.bench.workload.request import WorkloadError

csv.field_size_limit(sys.maxsize)  # prompts are longer than the 131,072 characters of its default
UNIT_NS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
_LIMIT_NS = 2**63 - 1  # what the session's clock holds


@dataclass(frozen=True)
class Row:
    """Values by column, without those that are empty."""

    path: Path
    line: int
    values: Mapping[str, Any]

    def refuse(self, column: str, needed: str) -> NoReturn:
        raise WorkloadError(
            f"{self.path}, line {self.line}, column {column}: {needed}, "
            f"not {self.values.get(column)!r}"
        )

    def whole_number(self, column: str, at_least: int) -> int:
        value = self.values.get(column)
        needed = f"a whole number of {at_least} or more is needed"
        if isinstance(value, str) and value.strip().isascii():
            value = _whole(value)
        if not isinstance(value, int) or isinstance(value, bool) or value < at_least:
            self.refuse(column, needed)
        return value

    def time_ns(self, column: str, unit: str) -> int:
        """Rounded to the nanosecond."""
        needed = f"a time of 0 {unit} or more is needed"
        try:
            time_ns = Decimal(str(self.values.get(column))) * UNIT_NS[unit]
        except InvalidOperation:
            self.refuse(column, needed)
        if not time_ns.is_finite() or time_ns < 0 or time_ns > _LIMIT_NS:
            self.refuse(column, needed)
        return round(time_ns)

    def text(self, column: str) -> str:
        value = self.values.get(column)
        if not isinstance(value, str):
            self.refuse(column, "text is needed")
        return value

    def whole_numbers(self, column: str) -> tuple[int, ...]:
        """A list: in JSON as it is, in CSV as JSON within the cell."""
        value = self.values.get(column)
        if isinstance(value, str):
            try:
                value = json.loads(value)
            except json.JSONDecodeError:
                value = None
        if not isinstance(value, list) or not all(type(v) is int and v >= 0 for v in value):
            self.refuse(column, "a list of whole numbers of 0 or more is needed")
        return tuple(value)


def read_rows(path: Path) -> Iterator[Row]:
    """Of ``*.csv`` or ``*.jsonl``, either of them gzipped (``.gz``). Raises WorkloadError."""
    kind = path.suffixes[-2] if path.suffix == ".gz" and len(path.suffixes) > 1 else path.suffix
    readers = {".csv": _csv_rows, ".jsonl": _json_rows}
    if kind not in readers:
        raise WorkloadError(f"{path}: a name that ends in {', '.join(readers)} or .gz is needed")
    try:
        with _opened(path) as file:
            yield from readers[kind](path, file)
    except (OSError, EOFError, UnicodeDecodeError, csv.Error) as error:
        raise WorkloadError(f"cannot read {path}: {error}") from None


def _opened(path: Path) -> TextIO:
    opened = gzip.open if path.suffix == ".gz" else open
    return cast(TextIO, opened(path, "rt", encoding="utf-8-sig", newline=""))


def _csv_rows(path: Path, file: TextIO) -> Iterator[Row]:
    table = csv.DictReader(file)
    columns = table.fieldnames or ()
    if twice := [name for name, count in Counter(columns).items() if count > 1]:
        raise WorkloadError(f"{path}, line 1: column {twice[0]} is there twice")
    for values in table:
        line = table.line_num
        if None in values or None in values.values():
            raise WorkloadError(
                f"{path}, line {line}: {len(columns)} values are needed, as in line 1"
            )
        yield Row(path, line, {name: value for name, value in values.items() if value != ""})


def _json_rows(path: Path, file: TextIO) -> Iterator[Row]:
    for line, text in enumerate(file, start=1):
        if not text.strip():
            continue
        try:
            values = json.loads(text)
        except json.JSONDecodeError as error:
            raise WorkloadError(f"{path}, line {line}: no JSON: {error}") from None
        if not isinstance(values, dict):
            raise WorkloadError(f"{path}, line {line}: an object with names and values is needed")
        yield Row(path, line, {name: value for name, value in values.items() if value is not None})


def _whole(text: str) -> int | None:
    try:
        return int(text)
    except ValueError:
        return None

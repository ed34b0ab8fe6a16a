"""Reading what other tools wrote: their fields by name and type, and a count of those unknown."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from warpserve.bench.real.files import ImportFailed, content_of
from warpserve.bench.real.metrics import STATISTICS, values_of
from warpserve.bench.real.schema import Request, Run
from warpserve.json_lines import complete_lines

_TOLERANCE = 0.005
"""Of a tool's own figure: more than rounding, less than another definition."""
_TOLERANCE_S = 1e-3


class Foreign(BaseModel):
    """Some tool's record. Fields that we do not know are kept, to be counted."""

    model_config = ConfigDict(extra="allow", frozen=True)

    @property
    def unknown(self) -> dict[str, Any]:
        return self.model_extra or {}


Record = TypeVar("Record", bound=Foreign)


def json_of(path: Path) -> Any:
    """Raises ImportFailed where it is none."""
    try:
        return json.loads(content_of(path))
    except ValueError as error:
        raise ImportFailed(f"{path} is no JSON: {error}") from None


def json_lines_of(path: Path) -> Iterator[Any]:
    """But for a last one that breaks off: whoever wrote it was killed.

    Raises ImportFailed with any other line that is no JSON.
    """
    for number, line in enumerate(
        complete_lines(content_of(path).decode(errors="replace")), start=1
    ):
        if line.strip():
            try:
                yield json.loads(line)
            except ValueError as error:
                raise ImportFailed(f"{path}, line {number}, is no JSON: {error}") from None


def record_of(kind: type[Record], document: Any, where: str) -> Record:
    """Raises ImportFailed, with the field, where the document is of another form."""
    try:
        return kind.model_validate(document)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"]))
        found = _short(first["input"])
        raise ImportFailed(f"{where}: {field}: {first['msg']}, not {found}") from None


def rows_of(
    path: Path, columns: Sequence[Sequence[Any] | None], optional: Sequence[Any] | None
) -> list[tuple[Any, ...]]:
    """Requests that a file tells column by column, ``optional`` last; none without ``columns``.

    Without an optional column, or with an empty one, each row ends with None. Raises ImportFailed.
    """
    given = [column for column in columns if column is not None]
    if len(given) < len(columns):
        return []
    last = optional or [None] * len(given[0])
    try:
        return list(zip(*given, last, strict=True))
    except ValueError:
        raise ImportFailed(f"{path}: its columns of requests are not equally long") from None


def completed_request(
    input_tokens: int, output_tokens: int, ttft_s: float, itl_s: Sequence[float], **more: Any
) -> Request:
    """Of a tool that says no latency: it is that of the last token. ``more``: other fields."""
    return Request(
        status="completed",
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        ttft_s=ttft_s,
        latency_s=ttft_s + math.fsum(itl_s),
        itl_s=tuple(itl_s),
        **more,
    )


def unknown_fields(records: Iterable[Foreign]) -> dict[str, int]:
    """Warnings for the fields that no reader knows, by name."""
    counts: dict[str, int] = {}
    for record in records:
        for name in record.unknown:
            warning = f"unknown field {name!r}"
            counts[warning] = counts.get(warning, 0) + 1
    return counts


def with_reports_checked(run: Run) -> Run:
    """With a warning for each figure of the tool's that its requests do not give.

    So that a metric which a tool defines in another way does not pass for ours.
    """
    warnings = dict(run.warnings)
    for metric, reported in run.reported_s.items():
        values = values_of(run, metric)
        for name in reported.keys() & STATISTICS.keys() if len(values) else ():
            ours_s, theirs_s = STATISTICS[name](values), reported[name]
            if abs(ours_s - theirs_s) > _TOLERANCE_S + _TOLERANCE * theirs_s:
                warnings[
                    f"{metric} {name}: the tool says {theirs_s * 1e3:.3f} ms, its requests give "
                    f"{ours_s * 1e3:.3f} ms"
                ] = 1
    return run.model_copy(update={"warnings": warnings})


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."

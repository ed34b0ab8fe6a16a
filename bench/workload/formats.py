"""What columns mean: our own, and those of published traces."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

from tokenizers import Tokenizer

from warpserve.bench.workload.request import Request, Segment, WorkloadError
from warpserve.bench.workload.table import UNIT_NS, Row, read_rows

MOONCAKE_BLOCK_TOKENS = 512

_ARRIVALS = {f"arrival_{unit}": unit for unit in UNIT_NS}
_THINKS = {f"think_{unit}": unit for unit in UNIT_NS}
_INPUTS = ("input_tokens", "prompt", "prompt_token_ids")
_OUTPUTS = ("output_tokens", "output_text", "output_token_ids")
_OWN = (
    *_ARRIVALS, *_INPUTS, *_OUTPUTS, "session", "turn", *_THINKS, "hash_ids", "hash_block_tokens",
)  # fmt: skip


@dataclass(frozen=True)
class _Format:
    columns: tuple[str, ...]
    """All of them are needed."""
    request: Callable[[Row], Request]


def read_requests(path: Path, tokenizer: Tokenizer | None = None) -> list[Request]:
    """The requests of a file of a user's own, or of one as its publisher has it.

    ``tokenizer``: the model's; columns of text need it. Raises WorkloadError, which names line and
    column.
    """
    rows = iter(read_rows(path))
    first = next(rows, None)
    if first is None:
        raise WorkloadError(f"{path} has no requests")
    published = next((known for known in _PUBLISHED.values() if _fits(known, first)), None)
    request = published.request if published else _OwnRows(tokenizer).request
    columns = published.columns if published else _OWN
    requests = []
    last_ns = 0
    for row in chain([first], rows):
        _check_columns(row, columns)
        requests.append(request(row))
        if (arrival_ns := requests[-1].arrival_ns) is not None:
            if arrival_ns < last_ns:
                raise WorkloadError(
                    f"{row.path}, line {row.line}: arrives at {arrival_ns / 1e9} s, before the "
                    f"request above it at {last_ns / 1e9} s"
                )
            last_ns = arrival_ns
    return requests if published is not _PUBLISHED["azure"] else _from_the_first(requests)


def _fits(known: _Format, row: Row) -> bool:
    return set(known.columns) == set(row.values)


def _check_columns(row: Row, known: tuple[str, ...]) -> None:
    for column in row.values:
        if column in known:
            continue
        for time in ("arrival", "think"):
            if column.startswith(f"{time}_"):
                choices = ", ".join(f"{time}_{unit}" for unit in UNIT_NS)
                raise WorkloadError(
                    f"{row.path}, line {row.line}, column {column}: a unit is one of {choices}"
                )
        others = "; ".join(f"{name}: {', '.join(fmt.columns)}" for name, fmt in _PUBLISHED.items())
        raise WorkloadError(
            f"{row.path}, line {row.line}, column {column} is not known; known are "
            f"{', '.join(_OWN)}; or exactly those of {others}"
        )


def _azure(row: Row) -> Request:
    text = row.text("TIMESTAMP")
    whole, _, fraction = text.partition(".")
    try:
        time = datetime.datetime.fromisoformat(whole).replace(tzinfo=datetime.timezone.utc)
        fraction_ns = int(fraction.ljust(9, "0")[:9] or 0)
    except ValueError:
        row.refuse("TIMESTAMP", "a time such as 2023-11-16 18:15:46.6805900 is needed")
    return Request(
        input_tokens=row.whole_number("ContextTokens", 1),
        output_tokens=row.whole_number("GeneratedTokens", 1),
        arrival_ns=int(time.timestamp()) * 10**9 + fraction_ns,
    )


def _from_the_first(requests: list[Request]) -> list[Request]:
    """With times that count from the first request, where they were a calendar's."""
    origin_ns = requests[0].arrival_ns or 0
    return [replace(r, arrival_ns=(r.arrival_ns or 0) - origin_ns) for r in requests]


def _mooncake(row: Row) -> Request:
    input_tokens = row.whole_number("input_length", 1)
    return Request(
        input_tokens=input_tokens,
        output_tokens=row.whole_number("output_length", 1),
        arrival_ns=row.time_ns("timestamp", "ms"),
        segments=_blocks(row, input_tokens, MOONCAKE_BLOCK_TOKENS),
    )


def _llmservingsim(row: Row) -> Request:
    return Request(
        input_tokens=row.whole_number("input_toks", 1),
        output_tokens=row.whole_number("output_toks", 1),
        arrival_ns=row.time_ns("arrival_time_ns", "ns"),
    )


def _blocks(row: Row, input_tokens: int, block_tokens: int) -> tuple[Segment, ...]:
    """A segment for each hash; the last one may be shorter than a block."""
    hashes = row.whole_numbers("hash_ids")
    if len(hashes) > -(-input_tokens // block_tokens):
        row.refuse(
            "hash_ids", f"at most one for each {block_tokens} of the {input_tokens} input tokens"
        )
    left = [input_tokens - block_tokens * index for index in range(len(hashes))]
    return tuple(
        Segment(key, min(block_tokens, tokens)) for key, tokens in zip(hashes, left, strict=True)
    )


class _OwnRows:
    """Our own columns; remembers which sessions have begun."""

    def __init__(self, tokenizer: Tokenizer | None) -> None:
        self._tokenizer = tokenizer
        self._turns: dict[str, int] = {}

    def request(self, row: Row) -> Request:
        session, is_later = self._session(row)
        prompt, prompt_token_ids, input_tokens = self._input(row, is_later)
        output_tokens, output_token_ids = self._output(row)
        return Request(
            input_tokens=input_tokens,
            output_tokens=output_tokens,
            arrival_ns=_time_ns(row, _ARRIVALS),
            segments=_own_blocks(row, input_tokens),
            prompt=prompt,
            prompt_token_ids=prompt_token_ids,
            output_token_ids=output_token_ids,
            session=session,
            think_ns=_time_ns(row, _THINKS) or 0,
        )

    def _session(self, row: Row) -> tuple[str | None, bool]:
        """Its name, and whether a turn of it came before."""
        if "session" not in row.values:
            for column in ("turn", *_THINKS):
                if column in row.values:
                    row.refuse(column, "only a request with a session has one")
            return None, False
        name = str(row.values["session"])
        is_later = name in self._turns
        if "turn" in row.values:
            turn = row.whole_number("turn", 0)
            if turn != self._turns.get(name, turn - 1) + 1 or (not is_later and turn > 1):
                row.refuse("turn", "a session's turns count from 0 or 1, each one more")
            self._turns[name] = turn
        self._turns.setdefault(name, 0)
        _check_times(row, is_later)
        return name, is_later

    def _input(self, row: Row, is_later: bool) -> tuple[str | None, tuple[int, ...] | None, int]:
        column = _one_of(row, _INPUTS)
        if column == "input_tokens":
            return None, None, row.whole_number(column, 1)
        if column == "prompt_token_ids":
            ids = row.whole_numbers(column)
            return None, ids, _at_least_one(row, column, len(ids))
        text = row.text(column)
        tokens = len(self._encoded(row, column, special=not is_later))
        return text, None, _at_least_one(row, column, tokens)

    def _encoded(self, row: Row, column: str, *, special: bool) -> tuple[int, ...]:
        text = row.text(column)
        if self._tokenizer is None:
            row.refuse(column, "token counts in place of texts are needed, without a tokenizer")
        return tuple(self._tokenizer.encode(text, add_special_tokens=special).ids)

    def _output(self, row: Row) -> tuple[int, tuple[int, ...] | None]:
        column = _one_of(row, _OUTPUTS)
        if column == "output_tokens":
            return row.whole_number(column, 1), None
        if column == "output_token_ids":
            ids = row.whole_numbers(column)
        else:
            ids = self._encoded(row, column, special=False)
        return _at_least_one(row, column, len(ids)), ids


def _one_of(row: Row, columns: tuple[str, ...]) -> str:
    found = [column for column in columns if column in row.values]
    if len(found) != 1:
        has = " and ".join(found) or "none"
        raise WorkloadError(
            f"{row.path}, line {row.line}: one of {', '.join(columns)} is needed; it has {has}"
        )
    return found[0]


def _at_least_one(row: Row, column: str, tokens: int) -> int:
    if tokens == 0:
        row.refuse(column, "a token at least is needed")
    return tokens


def _time_ns(row: Row, columns: dict[str, str]) -> int | None:
    found = [column for column in columns if column in row.values]
    if len(found) > 1:
        raise WorkloadError(f"{row.path}, line {row.line}: {' and '.join(found)} say the same")
    return row.time_ns(found[0], columns[found[0]]) if found else None


def _check_times(row: Row, is_later: bool) -> None:
    """A session's first turn arrives, the later ones follow their answers."""
    columns = _ARRIVALS if is_later else _THINKS
    for column in columns:
        if column in row.values:
            needed = (
                "none: it is sent think time after the answer before it"
                if is_later
                else ("none: there is no answer before it")
            )
            row.refuse(column, needed)


def _own_blocks(row: Row, input_tokens: int) -> tuple[Segment, ...]:
    if "hash_ids" not in row.values and "hash_block_tokens" not in row.values:
        return ()
    for column in ("prompt", "prompt_token_ids", "session"):
        if column in row.values:
            row.refuse(column, "none: the hashes say what the prompt is")
    return _blocks(row, input_tokens, row.whole_number("hash_block_tokens", 1))


_PUBLISHED = {
    "azure": _Format(("TIMESTAMP", "ContextTokens", "GeneratedTokens"), _azure),
    "mooncake": _Format(("timestamp", "input_length", "output_length", "hash_ids"), _mooncake),
    "llmservingsim": _Format(("arrival_time_ns", "input_toks", "output_toks"), _llmservingsim),
}

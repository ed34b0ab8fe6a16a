"""Steps as they were recorded: the same batch takes as long again.

A batch that was not recorded takes as long as the nearest that was: of those with as many padded
tokens (or else the nearest number), with prefills or without and eager or not as it is, the one
whose attention has the most similar work.
"""

from __future__ import annotations

import json
import re
import statistics
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from warpserve.json_lines import complete_lines
from warpserve.predictors.batch import Batch, Launch, RequestStep, Sampling
from warpserve.predictors.deployment import Deployment
from warpserve.predictors.predictor import (
    Lookups,
    OperatorTime,
    Prediction,
    PredictorError,
    Provenance,
)

_NAME = re.compile(r"steps-(?P<replica>(?:\w+-)?\d+)-(?P<rank>\d+)(?:\.\d+)?\.jsonl")
"""As workers name their logs (name_of in patches/vllm and patches/sglang)."""
_Key = tuple[int, tuple[RequestStep, ...], int, int | None, bool]


class _Kind(NamedTuple):
    """Of batches, which others are no measure for."""

    has_prefill: bool
    is_eager: bool


class Replay:
    """``recorded``: batches, and how long each took."""

    def __init__(self, recorded: Sequence[tuple[Batch, Prediction]]) -> None:
        if not recorded:
            raise PredictorError("no steps were recorded")
        self._exact = _medians(recorded)
        by_kind: dict[_Kind, list[tuple[Batch, Prediction]]] = defaultdict(list)
        for (tokens, requests, *_, is_eager), step in self._exact.items():
            batch = Batch(requests, tokens, launch=Launch.of(is_eager=is_eager))
            by_kind[_kind(batch)].append((batch, step))
        self._nearest = {kind: _Nearest(batches) for kind, batches in by_kind.items()}
        self._outside = f"not among the {len(self._exact):,} batches that were recorded"
        self._hits = self._misses = 0

    def predict(self, batch: Batch) -> Prediction:
        found = self._exact.get(_key(batch))
        if found is not None:
            self._hits += 1
            return found
        self._misses += 1
        return self._guess(batch)

    def explain(self, batch: Batch) -> list[OperatorTime]:
        found = self._exact.get(_key(batch))
        prediction = found or self._guess(batch)
        source = "recorded" if found else "the nearest that was recorded"
        return [OperatorTime("step", prediction.duration_ns, source)]

    @property
    def lookups(self) -> Lookups:
        """A miss is a batch that was not recorded."""
        return Lookups(self._hits, self._misses)

    def _guess(self, batch: Batch) -> Prediction:
        if not batch.requests:
            raise PredictorError(f"no step works on {batch}")
        nearest = self._nearest[self._kind_for(batch)].to(batch)
        return Prediction(nearest.duration_ns, Provenance.EXTRAPOLATED, self._outside)

    def _kind_for(self, batch: Batch) -> _Kind:
        """Rather one with prefills, or without, than one that is launched so."""
        own = _kind(batch)
        return max(
            self._nearest,
            key=lambda kind: (kind.has_prefill == own.has_prefill, kind.is_eager == own.is_eager),
        )


class Worker(NamedTuple):
    """Who wrote a step log."""

    replica: str
    rank: int
    """In its replica: one stage after the other."""


class RecordedStep(NamedTuple):
    """A line of a step log."""

    batch: Batch
    prediction: Prediction
    start_ns: int
    request_ids: frozenset[str]
    worker: Worker | None = None
    """None where the log's name does not say it."""


def recorded_steps(path: str) -> list[RecordedStep]:
    """Of a step log, a folder of them, or that of a run. Raises PredictorError."""
    return [step for file in _files(path) for step in _steps(file)]


def replay_of(steps: Sequence[RecordedStep]) -> Replay:
    """Raises PredictorError where there are none."""
    return Replay([(step.batch, step.prediction) for step in steps])


def steps_of_stage(steps: Sequence[RecordedStep], deployment: Deployment) -> list[RecordedStep]:
    """Of the stage of its pipeline that ``deployment`` means; all where it is the only one."""
    if deployment.pipeline_parallel == 1:
        return list(steps)
    return [
        step
        for step in steps
        if step.worker and deployment.stage_of_rank(step.worker.rank) == deployment.pipeline_rank
    ]


def steps_of_first_stages(steps: Sequence[RecordedStep]) -> list[RecordedStep]:
    """Of each replica's lowest rank, and those of which nobody knows."""
    first: dict[str, int] = {}
    for worker in {step.worker for step in steps}:
        if worker is not None:
            first[worker.replica] = min(worker.rank, first.get(worker.replica, worker.rank))
    return [
        step
        for step in steps
        if step.worker is None or step.worker.rank == first[step.worker.replica]
    ]


class _Nearest:
    """Some batches, by padded tokens, and in order of the work of their attention."""

    def __init__(self, batches: Sequence[tuple[Batch, Prediction]]) -> None:
        by_tokens: dict[int, list[tuple[float, Prediction]]] = defaultdict(list)
        for batch, prediction in batches:
            by_tokens[batch.padded_tokens].append((_attention_work(batch), prediction))
        for of_size in by_tokens.values():
            of_size.sort(key=lambda each: (each[0], each[1].duration_ns))
        self._by_tokens = by_tokens
        self._tokens = sorted(by_tokens)
        self._works = {
            tokens: [work for work, _ in of_size] for tokens, of_size in by_tokens.items()
        }

    def to(self, batch: Batch) -> Prediction:
        tokens = _closest(self._tokens, batch.padded_tokens)
        works = self._works[tokens]
        index = works.index(_closest(works, _attention_work(batch)))
        return self._by_tokens[tokens][index][1]


def _medians(recorded: Sequence[tuple[Batch, Prediction]]) -> dict[_Key, Prediction]:
    found: dict[_Key, list[Prediction]] = defaultdict(list)
    for batch, prediction in recorded:
        found[_key(batch)].append(prediction)
    return {
        key: Prediction(
            statistics.median_low(each.duration_ns for each in predictions),
            predictions[0].provenance,
            predictions[0].outside,
        )
        for key, predictions in found.items()
    }


def _key(batch: Batch) -> _Key:
    """Neither the order of requests matters, nor how their tokens are chosen."""
    requests = tuple(sorted(batch.requests))
    return batch.padded_tokens, requests, batch.loras, batch.shared_tokens, batch.is_eager


def _kind(batch: Batch) -> _Kind:
    return _Kind(any(request.is_prefill for request in batch.requests), batch.is_eager)


def _attention_work(batch: Batch) -> float:
    """Pairs of tokens."""
    return sum(new * (cached + new / 2) for new, cached, _ in batch.requests)


def _closest(values: Sequence[Any], value: float) -> Any:
    """Of sorted ``values``."""
    index = bisect_left(values, value)
    around = values[max(index - 1, 0) : index + 1]
    return min(around, key=lambda each: abs(each - value))


def _files(path: str) -> list[Path]:
    if not path:
        raise PredictorError("replay of what? Say replay:RUN/steps")
    given = Path(path)
    if given.is_file():
        return [given]
    files = sorted(given.glob("steps/*.jsonl")) or sorted(given.glob("*.jsonl"))
    if not files:
        raise PredictorError(f"{path}: no step log there (steps/*.jsonl or *.jsonl)")
    return files


def _steps(file: Path) -> Iterator[RecordedStep]:
    named = _NAME.fullmatch(file.name)
    worker = Worker(named["replica"], int(named["rank"])) if named else None
    lines = complete_lines(file.read_text(errors="replace"))
    for number, line in enumerate(lines, start=1):
        try:
            yield _step(json.loads(line), worker)
        except (ValueError, TypeError, KeyError) as error:
            raise PredictorError(f"{file}, line {number}: no step: {error!r}") from None


def _step(fields: dict[str, Any], worker: Worker | None) -> RecordedStep:
    requests = tuple(
        RequestStep(_count(new), _count(cached), bool(is_prefill))
        for new, cached, is_prefill in fields["requests"]
    )
    duration_ns = _count(fields["duration_ns"])
    if duration_ns == 0:
        raise ValueError("duration_ns is 0")
    shared_tokens = fields.get("shared_tokens")
    batch = Batch(
        requests,
        _count(fields["padded_tokens"]),
        _count(fields.get("loras", 0)),
        Sampling.labelled(fields.get("sampling", Sampling.GREEDY.label)),
        Launch.of(is_eager=fields.get("eager", False)),
        None if shared_tokens is None else _count(shared_tokens),
    )
    provenance = Provenance(fields["provenance"])
    prediction = Prediction(duration_ns, provenance, fields.get("outside"))
    request_ids = frozenset(map(str, fields["request_ids"]))
    return RecordedStep(batch, prediction, _count(fields["start_ns"]), request_ids, worker)


def _count(value: Any) -> int:
    if not isinstance(value, int) or value < 0:
        raise ValueError(f"{value!r} is no count")
    return value

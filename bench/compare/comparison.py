"""All that is said of a run beside real ones; the form of ``warpserve compare --json``."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict

from warpserve.bench.compare.comparable import Difference, differences, not_known
from warpserve.bench.compare.curves import Curve, curves_of
from warpserve.bench.compare.figures import Figure, Metric, are_paired, metrics_of, throughput_of
from warpserve.bench.real.schema import Request, Run
from warpserve.errors import WarpserveError


class NotComparable(WarpserveError):
    """The runs are of different things; the message names each difference."""


class Side(BaseModel):
    """One run, in a line."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    engine: str | None
    model: str | None
    gpu: str | None
    requests: int
    completed: int
    sources: list[str]
    warnings: dict[str, int]


class Comparison(BaseModel):
    """Written by ``--json``."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    run: Side
    reals: list[Side]
    differences: list[Difference]
    not_known: list[str]
    notes: list[str]
    metrics: dict[str, Metric]
    throughput: dict[str, Figure]
    curves: dict[str, Curve]
    """Against the first real run."""


def compare(
    run: Run, reals: Sequence[Run], names: Sequence[str], *, force: bool = False, seed: int = 0
) -> Comparison:
    """``names``: of the run and of each real one.

    Raises NotComparable where one of the real ones is a run of something else, unless ``force``.
    """
    found = [difference for real in reals for difference in differences(run, real)]
    refused = [difference for difference in found if difference.weight == "refused"]
    if refused and not force:
        raise NotComparable(
            "these are runs of different things: "
            + "; ".join(dict.fromkeys(map(str, refused)))
            + " (--force compares them all the same)"
        )
    (run, *alike), notes = _from_sending([run, *reals])
    notes += ["Both sent the same requests in the same order."] if are_paired(run, alike[0]) else []
    return Comparison(
        run=_side(names[0], run),
        reals=[_side(name, real) for name, real in zip(names[1:], alike, strict=True)],
        differences=list(dict.fromkeys(found)),
        not_known=sorted({name for real in reals for name in not_known(run, real)}),
        notes=notes,
        metrics=metrics_of(run, alike, seed),
        throughput=throughput_of(run, alike),
        curves=curves_of(run, alike[0]),
    )


def _from_sending(runs: Sequence[Run]) -> tuple[list[Run], list[str]]:
    """Runs whose times all count from the same: from sending, where one does.

    A run that counts from queueing is counted anew from sending, if it says when it sent.
    """
    starts = {run.workload.times_from for run in runs}
    if len(starts) == 1:
        return list(runs), []
    changed = [run if run.workload.times_from == "sending" else _sent(run) for run in runs]
    if any(run.workload.times_from != "sending" for run in changed):
        return list(runs), ["TTFT and latency count from sending in one, from queueing in another."]
    return changed, [
        "Times that counted from queueing count from sending here, as the other run's do."
    ]


def _sent(run: Run) -> Run:
    if any(r.arrival_s is None or r.queued_s is None for r in run.requests):
        return run
    return run.model_copy(
        update={
            "workload": run.workload.model_copy(update={"times_from": "sending"}),
            "requests": tuple(map(_request_sent, run.requests)),
        }
    )


def _request_sent(request: Request) -> Request:
    assert request.arrival_s is not None
    assert request.queued_s is not None
    before_s = request.queued_s - request.arrival_s
    later = {
        name: value + before_s
        for name in ("ttft_s", "latency_s")
        if (value := getattr(request, name)) is not None
    }
    return request.model_copy(update=later)


def _side(name: str, run: Run) -> Side:
    engine = [run.deployment.engine, run.deployment.engine_version]
    return Side(
        name=name,
        engine=" ".join(part for part in engine if part) or None,
        model=run.deployment.model,
        gpu=run.deployment.gpu,
        requests=len(run.requests),
        completed=len(run.completed),
        sources=[source.name for source in run.sources],
        warnings=run.warnings,
    )

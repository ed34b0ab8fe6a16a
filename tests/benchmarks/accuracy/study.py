"""A case run: without a fit, and with one number fitted to the real run's mean TPOT."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal, NamedTuple

from tests.benchmarks.accuracy.cases import Case
from warpserve.bench.compare.comparison import Comparison
from warpserve.bench.compare.figures import Figure
from warpserve.bench.real.read import read_run
from warpserve.bench.replay import arrivals_file, run_beside
from warpserve.bench.run_folder import RunFolder
from warpserve.bench.twin import twin_of

_CLOSE = 0.001
_MOST_ROUNDS = 3


class Fit(NamedTuple):
    """What was found by looking at the real run: one number, or none."""

    kind: Literal["none", "scale", "host"] = "none"
    value: float = 0.0
    """A factor of all step times, or ms that are added to each."""
    rounds: int = 0
    """Replays that it took."""

    @property
    def scale(self) -> float:
        return self.value if self.kind == "scale" else 1.0

    @property
    def host_ms(self) -> float:
        return self.value if self.kind == "host" else 0.0

    @property
    def options(self) -> str:
        """Of a predictor's spec."""
        options = {"none": "", "scale": f"scale={self.value:.5f}"}
        return options.get(self.kind, f"host={self.value:.4f}ms")

    def __str__(self) -> str:
        words = {"none": "nothing", "scale": f"scale {self.value:.4f}"}
        return words.get(self.kind, f"host {self.value:.2f} ms")


class Outcome(NamedTuple):
    """One replay."""

    case: Case
    fit: Fit
    folder: Path
    comparison: Comparison
    steps: Counter[str]
    """By what their durations rest on."""


def study(case: Case, out: Path) -> Iterator[Outcome]:
    """Without a fit; with one scale; and with one time a step, where steps are too short.

    Replays that ``out`` already has are taken from there.
    """
    unfitted = _replayed(case, Fit(), out)
    yield unfitted
    yield _fitted(unfitted, _next_scale, out)
    if _tpot(unfitted).error < 0:
        yield _fitted(unfitted, _next_host, out)


def _fitted(outcome: Outcome, next_fit: Callable[[Outcome], Fit], out: Path) -> Outcome:
    """The last of at most three rounds, each of which corrects the error that was left."""
    for _ in range(_MOST_ROUNDS):
        if abs(_tpot(outcome).error) < _CLOSE:
            break
        outcome = _replayed(outcome.case, next_fit(outcome), out)
    return outcome


def _next_scale(outcome: Outcome) -> Fit:
    fit = outcome.fit
    return Fit("scale", fit.scale / (1 + _tpot(outcome).error), fit.rounds + 1)


def _next_host(outcome: Outcome) -> Fit:
    fit, tpot = outcome.fit, _tpot(outcome)
    return Fit("host", fit.host_ms + (tpot.real - tpot.run) * 1e3, fit.rounds + 1)


def _tpot(outcome: Outcome) -> Figure:
    return outcome.comparison.metrics["tpot"].statistics["mean"]


def _replayed(case: Case, fit: Fit, out: Path) -> Outcome:
    folder = out / f"{case.gpu}-{case.predictor.replace(' ', '-')}-{fit.kind}-{fit.rounds}"
    done = folder / "comparison.json"
    if done.exists():
        comparison = Comparison.model_validate_json(done.read_text())
    else:
        real = read_run(case.real)
        twin = twin_of(
            real, arrivals_file(folder),
            gpu=case.gpu, predictor=case.spec(fit.options), fast=True,
        )  # fmt: skip
        comparison = run_beside(twin, folder, case.real.name)
    return Outcome(case, fit, folder, comparison, _provenances(RunFolder(folder)))


def _provenances(folder: RunFolder) -> Counter[str]:
    lines = [line for file in folder.steps.iterdir() for line in file.read_text().splitlines()]
    return Counter(str(json.loads(line)["provenance"]) for line in lines)

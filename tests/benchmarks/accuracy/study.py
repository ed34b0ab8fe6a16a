"""A case run: without a fit, and with one scale fitted to the real run's mean TPOT."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from tests.benchmarks.accuracy.cases import PROFILES, Case
from tests.benchmarks.predictors.profiles import Profile
from warpserve.bench.compare.comparison import Comparison
from warpserve.bench.real.read import read_run
from warpserve.bench.replay import arrivals_file, run_beside
from warpserve.bench.run_folder import RunFolder
from warpserve.bench.summary import Summary
from warpserve.bench.twin import twin_of
from warpserve.predictors.learned.fit import fit

_CLOSE = 0.0005
_MOST_ROUNDS = 3
_PROFILES = Path(__file__).parents[2] / "data" / "llmservingsim" / "profiles"
_LAYERS = 32  # of Llama-3.1-8B


class Outcome(NamedTuple):
    """One replay."""

    case: Case
    scale: float
    fitted_rounds: int
    """Replays that the scale took; 0: nothing was fitted."""
    folder: Path
    comparison: Comparison
    steps: Counter[str]
    """By what their durations rest on."""
    wall_s: float


def study(case: Case, out: Path) -> list[Outcome]:
    """Without a fit, then with the last of at most three scales.

    A scale is right when the run's mean TPOT is the real one's, which queueing makes a little more
    or less than proportional: each round corrects it by the error that is left.
    """
    unfitted = _replayed(case, 1.0, 0, out)
    fitted = unfitted
    for rounds in range(1, _MOST_ROUNDS + 1):
        error = fitted.comparison.metrics["tpot"].statistics["mean"].error
        if abs(error) < _CLOSE:
            break
        fitted = _replayed(case, fitted.scale / (1 + error), rounds, out)
    return [unfitted, fitted]


def _replayed(case: Case, scale: float, rounds: int, out: Path) -> Outcome:
    real = read_run(case.real)
    folder = out / f"{case.gpu}-{case.predictor.replace(' ', '-')}-{rounds}"
    twin = twin_of(
        real, arrivals_file(folder),
        gpu=case.gpu, predictor=_predictor(case, scale, folder), fast=True,
    )  # fmt: skip
    comparison = run_beside(real, twin, folder, case.real.name)
    summary = Summary.model_validate_json(RunFolder(folder).summary.read_text())
    steps = _provenances(RunFolder(folder))
    return Outcome(case, scale, rounds, folder, comparison, steps, summary.host.wall_s)


def _predictor(case: Case, scale: float, folder: Path) -> str:
    """Its spec, whose step times are ``scale`` times as long."""
    if case.predictor != PROFILES:
        return case.predictor if scale == 1.0 else f"{case.predictor}:scale={scale:.5f}"
    profile = Profile(_PROFILES / case.real.name / "Llama-3.1-8B", _LAYERS)
    steps = [(step.batch, round(step.measured_ns * scale)) for step in profile.steps()]
    file = folder.with_name(f"{folder.name}.predictor.json")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(fit(steps, f"profiles of {case.real.name}").to_json())
    return f"learned:{file}"


def _provenances(folder: RunFolder) -> Counter[str]:
    lines = [line for file in folder.steps.iterdir() for line in file.read_text().splitlines()]
    return Counter(str(json.loads(line)["provenance"]) for line in lines)

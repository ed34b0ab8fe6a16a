"""`warpserve calibrate`: numbers of a deployment's steps and of its requests, from a real run."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.table import Table

from warpserve.bench.calibration import fitting, observations
from warpserve.bench.calibration.fitting import Errors, Line, Split
from warpserve.bench.calibration.frontends import FoundFrontend, frontend_of
from warpserve.bench.calibration.prefills import of_prefills
from warpserve.bench.calibration.sampling import Sampled, sampling_of
from warpserve.bench.calibration.told import engine_of, told
from warpserve.bench.models import model_named
from warpserve.bench.predict import options
from warpserve.bench.predict.asked import asked_deployment
from warpserve.bench.real.formats import recording
from warpserve.bench.real.read import merged, read_run
from warpserve.bench.real.schema import Run
from warpserve.console import console, fail
from warpserve.errors import WarpserveError
from warpserve.predictors.batch import Sampling
from warpserve.predictors.calibration import Calibration
from warpserve.predictors.eager import launches
from warpserve.predictors.predictor import Predictor, PredictorError
from warpserve.predictors.replay import recorded_steps
from warpserve.predictors.spec import (
    Options,
    has_launches,
    knows_prefills,
    parse,
    predictor_of,
)


def calibrate(
    files: Annotated[
        list[Path],
        typer.Argument(help="of `warpserve record`, what `warpserve import` reads, or both"),
    ],
    model: options.Model,
    gpu: options.Gpu,
    engine: Annotated[
        str | None, typer.Option(help="ENGINE==VERSION of the run [as it says, or vllm==0.24.0]")
    ] = None,
    predictor: Annotated[
        str, typer.Option(help="what to calibrate: aiconfigurator, analytic, learned:FILE, …")
    ] = "aiconfigurator",
    tp: options.TensorParallel = 1,
    pp: Annotated[int, typer.Option(min=1, help="pipeline parallel")] = 1,
    dp: options.DataParallel = 1,
    ep: options.ExpertParallel = False,
    weights: options.Weights = None,
    kv_cache: options.KvCache = "bf16",
    concurrency: Annotated[
        int, typer.Option(min=1, help="fit to at most so many requests under way")
    ] = 8,
    out: Annotated[
        Path | None, typer.Option(help="a file for --predictor calibrated:FILE [none]")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="for programs")] = False,
) -> None:
    """Fit scales, host time of a step and of a request to a real run at low concurrency.

    Then measured = scale x predicted + host, with a scale of its own for what prefills add. What
    was not fitted to tells how far that holds.
    """
    try:
        if parse(predictor).options != Options():
            raise PredictorError(f"{predictor}: scale and host are what is to be found")
        run = merged(read_run(files[0]), [read_run(file) for file in files[1:]])
        engine = engine or engine_of(run)
        deployment = asked_deployment(
            model, gpu, engine, tp=tp, pp=pp, dp=dp, ep=ep, weights=weights, kv_cache=kv_cache
        )
        run = told(run, deployment, model, gpu)
        sampling = sampling_of(run, model_named(model).generation())
        found = _Calibrated(
            files, run, predictor_of(predictor, deployment), sampling, concurrency,
            prefills_apart=knows_prefills(predictor),
        )  # fmt: skip
        if found.has_eager_steps and has_launches(predictor):
            without = predictor_of(f"{predictor}{_separator(predictor)}launch_host=0ns", deployment)
            found.find_launches(without, launches(deployment))
    except (PredictorError, WarpserveError) as error:
        fail(error)
    ranks = "".join(f", {name} {n}" for name, n in (("TP", tp), ("PP", pp), ("DP", dp)) if n > 1)
    calibration = found.as_file(predictor, f"{model} on {gpu}{ranks}, {engine}")
    if out is not None:
        out.write_text(calibration.to_json())
    if as_json:
        typer.echo(json.dumps(asdict(calibration), indent=2))
    else:
        found.show(calibration)


class _Calibrated:
    """The numbers, and what they were found from."""

    def __init__(
        self,
        files: list[Path],
        run: Run,
        predictor: Predictor,
        sampling: Sampling,
        most_requests: int,
        *,
        prefills_apart: bool,
    ) -> None:
        """Raises PredictorError and RunError where the run does not have it."""
        self.source = str(files[0].absolute())
        self.most_requests = most_requests
        recorded = next(filter(recording.recognises, files), None)
        self._steps = [] if recorded is None else recorded_steps(str(recorded))
        self.launch_ns: int | None = None
        sampled = Sampled(predictor, sampling)
        first_tokens = observations.of_first_tokens(run, sampled) if run.requests else []
        if recorded is not None:
            found = observations.of_recording(self._steps, predictor)
        else:
            found = observations.of_tokens(run, sampled) + of_prefills(run, sampled)
        if not prefills_apart:
            found = [each._replace(added_ns=0.0) for each in found]
        self.split: Split = fitting.split(found, most_requests)
        self.line: Line = fitting.fit_steps(self.split.known)
        self.why_no_prefills = self._find_prefills()
        self.frontend: FoundFrontend = frontend_of(run, first_tokens, self.line)

    def _find_prefills(self) -> str:
        """Why there is no scale of them, where it is not for want of steps."""
        scale = fitting.fit_prefills(self.split.known, self.line)
        if scale is None:
            return ""
        if fitting.is_of_a_gpu(scale):
            self.line = self.line._replace(prefill_scale=scale)
            return ""
        return (
            f"steps with prefills took {scale:.2f} of what the predictor says that prefills add: "
            "no scale of a GPU; did the prefix cache have the prompts?"
        )

    @property
    def has_eager_steps(self) -> bool:
        return any(step.batch.is_eager for step in self._steps)

    def find_launches(self, without: Predictor, launches: int) -> None:
        """``without``: what they take; ``launches``: of each step."""
        steps = observations.of_eager_steps(self._steps, without)
        self.launch_ns = fitting.fit_launches(steps, self.line.scale, launches)

    def as_file(self, predictor: str, deployment: str) -> Calibration:
        held_out = fitting.errors(self.split.others, self.line)
        return Calibration(
            spec=self._spec(predictor),
            deployment=deployment,
            source=self.source,
            fitted_on=(
                f"{len(self.split.known):,} observations with up to {self.most_requests} requests "
                f"under way, {sum(each.added_ns > 0 for each in self.split.known):,} of them with "
                f"prefills; {self.frontend.fitted_on}"
            ),
            held_out=f"{len(self.split.others):,} observations: {self.split.what}",
            held_out_median=held_out.median if held_out else None,
            held_out_worst=held_out.worst if held_out else None,
        )

    def _spec(self, predictor: str) -> str:
        host_ns = round(self.line.host_ns)
        fitted = [f"scale={self.line.scale:.4f}", f"host={host_ns}ns"]
        if self.line.prefill_scale is not None:
            fitted.append(f"prefill_scale={self.line.prefill_scale:.4f}")
        if self.launch_ns is not None:
            fitted.append(f"launch_host={self.launch_ns}ns")
        if (frontend := self.frontend.found) is not None:
            fitted.append(f"request_host={frontend.request_ns}ns")
            if frontend.prompt_token_ns:
                fitted.append(f"prompt_token_host={frontend.prompt_token_ns}ns")
        return f"{predictor}{_separator(predictor)}{','.join(fitted)}"

    def show(self, calibration: Calibration) -> None:
        table = Table("", "points", "median error", "worst", box=box.SIMPLE_HEAD)
        before = Line(1.0, 0.0)
        for name, line in (("as predicted", before), ("calibrated", self.line)):
            for what, of in (("fitted on", self.split.known), ("held out", self.split.others)):
                table.add_row(f"{what}, {name}", *_cells(fitting.errors(of, line)))
        console().print(table)
        typer.echo(f"fitted on {calibration.fitted_on}; held out {calibration.held_out}")
        if self.why_no_prefills:
            typer.echo(self.why_no_prefills)
        if self.frontend.found is None:
            why = self.frontend.why_unknown
            typer.echo(f"what a request takes beside its steps is unknown: {why}")
        typer.echo(f"--predictor {calibration.spec}")


def _separator(predictor: str) -> str:
    """Before options."""
    return "," if ":" in predictor else ":"


def _cells(errors: Errors | None) -> tuple[str, str, str]:
    if errors is None:
        return "0", "", ""
    return f"{errors.points:,}", f"{errors.median:.1%}", f"{errors.worst:.1%}"

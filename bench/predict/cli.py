"""`warpserve predict`: one step explained."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.table import Table

from warpserve.bench.predict import options
from warpserve.bench.predict.asked import asked_deployment
from warpserve.console import console, fail
from warpserve.errors import WarpserveError
from warpserve.predictors.batch import Batch, Launch, Sampling
from warpserve.predictors.captured import padded_for
from warpserve.predictors.groups import decodes, groups, prefills
from warpserve.predictors.predictor import OperatorTime, Prediction, PredictorError
from warpserve.predictors.spec import predictor_of
from warpserve.predictors.strict import Strict
from warpserve.predictors.sweep import Point, Sweep, plot_of, table_of


def predict(
    model: options.Model,
    gpu: options.Gpu,
    prefill: Annotated[
        list[str] | None,
        typer.Option(help="COUNTxNEW+CACHED tokens, such as 1x2048+6144; may be repeated"),
    ] = None,
    decode: Annotated[
        list[str] | None,
        typer.Option(
            help="COUNTxCONTEXT tokens, the new one among them, such as 32x1024; may be repeated"
        ),
    ] = None,
    batch: Annotated[
        str | None,
        typer.Option(help="the same in one: COUNTxNEW@CACHED,…, such as 32x1@1024,1x512@0"),
    ] = None,
    loras: Annotated[int, typer.Option(min=0, help="adapters (LoRA) of its requests")] = 0,
    lora_rank: Annotated[int | None, typer.Option(min=1, help="of the largest adapter")] = None,
    sampling: Annotated[
        str, typer.Option(help="greedy, random, or filtered (top-k, top-p)")
    ] = "greedy",
    engine: Annotated[str, typer.Option(help="ENGINE==VERSION")] = "vllm==0.24.0",
    predictor: Annotated[
        str, typer.Option(help="such as aiconfigurator, analytic, profile:FOLDER")
    ] = "aiconfigurator",
    tp: options.TensorParallel = 1,
    pp: Annotated[int, typer.Option(min=1, help="pipeline parallel: the first stage")] = 1,
    dp: options.DataParallel = 1,
    ep: options.ExpertParallel = False,
    weights: options.Weights = None,
    expert_kernels: options.ExpertKernels = None,
    kv_cache: options.KvCache = "bf16",
    sweep: Annotated[
        str | None,
        typer.Option(
            help="instead of one step: decodes of these counts at these contexts, "
            "such as 1,8,64@1024,8192"
        ),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="with --sweep: a file for the same as a picture (.svg)")
    ] = None,
    padded: Annotated[
        int | None,
        typer.Option(help="tokens with padding [as vLLM pads by default, eager steps not at all]"),
    ] = None,
    shared_tokens: Annotated[
        int | None,
        typer.Option(
            help="with --dp: of all replicas, each with its padding [as many in each]", min=1
        ),
    ] = None,
    eager: Annotated[
        bool,
        typer.Option(
            "--eager",
            help="kernels are launched one by one: --enforce-eager, or a prefill of SGLang "
            "outside of CUDA graphs",
        ),
    ] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="an answer that is extrapolated is an error")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="for programs")] = False,
) -> None:
    """How long a GPU takes for one step of an engine, and what for.

    A request with one new token is a decode.
    """
    try:
        deployment = asked_deployment(
            model,
            gpu,
            engine,
            tp=tp,
            pp=pp,
            dp=dp,
            ep=ep,
            weights=weights,
            kv_cache=kv_cache,
            expert_kernels=expert_kernels,
            lora_rank=lora_rank,
        )
        chosen = predictor_of(predictor, deployment)
        if strict:
            chosen = Strict(chosen)
        if loras and lora_rank is None:
            raise PredictorError("which rank do the adapters have? Say --lora-rank 16")
        drawn = _sampling_named(sampling)
        if sweep is not None:
            _check_swept(
                {
                    "--prefill": prefill,
                    "--decode": decode,
                    "--batch": batch,
                    "--padded": padded,
                    "--shared-tokens": shared_tokens,
                    "--eager": eager or None,
                }
            )
            points = Sweep.parse(sweep).points(chosen, loras=loras, sampling=drawn)
            _show(points, plot, as_json=as_json)
            return
        if plot is not None:
            raise PredictorError("--plot is of --sweep: say which counts and contexts")
        requests = [*prefills(prefill or []), *decodes(decode or []), *groups(batch)]
        if not requests:
            raise PredictorError("which batch? Say --decode 32x1024, --prefill 1x512 or --batch")
        tokens = sum(request.new_tokens for request in requests)
        launch = Launch.of(is_eager=eager)
        step = Batch(
            tuple(requests),
            padded_for(launch, tokens) if padded is None else padded,
            loras=loras,
            sampling=drawn,
            launch=launch,
            shared_tokens=shared_tokens,
        )
        _check_shared(step, dp)
        prediction, rows = chosen.predict(step), chosen.explain(step)
    except (PredictorError, WarpserveError) as error:
        fail(error)
    if as_json:
        typer.echo(json.dumps(_document(step, prediction, rows), indent=2))
    else:
        console().print(_table(step, prediction, rows))


def _check_shared(step: Batch, replicas: int) -> None:
    shared_tokens = step.shared_tokens
    if shared_tokens is None:
        return
    if replicas == 1:
        raise PredictorError("--shared-tokens are of several replicas: say --dp, too")
    if shared_tokens < step.padded_tokens:
        raise PredictorError(
            f"--shared-tokens {shared_tokens} are fewer than those of this replica, "
            f"{step.padded_tokens} with padding"
        )


def _sampling_named(name: str) -> Sampling:
    try:
        return Sampling.labelled(name)
    except ValueError as error:
        raise PredictorError(str(error)) from None


def _check_swept(of_one_step: Mapping[str, object]) -> None:
    """``of_one_step``: by option; None: nothing was said."""
    for name, said in of_one_step.items():
        if said is not None:
            raise PredictorError(f"{name} is of one step, not of --sweep")


def _show(points: Sequence[Point], plot: Path | None, *, as_json: bool) -> None:
    if plot is not None:
        plot.write_text(plot_of(points))
    if as_json:
        typer.echo(json.dumps([point.document() for point in points], indent=2))
    else:
        console().print(table_of(points))


def _document(step: Batch, prediction: Prediction, rows: list[OperatorTime]) -> dict[str, object]:
    return {
        "duration_ns": prediction.duration_ns,
        "provenance": prediction.provenance.value,
        "outside": prediction.outside,
        "uncertainty": prediction.uncertainty,
        "requests": len(step.requests),
        "new_tokens": step.new_tokens,
        "padded_tokens": step.padded_tokens,
        "operators": [row._asdict() for row in rows],
    }


def _table(step: Batch, prediction: Prediction, rows: list[OperatorTime]) -> Table:
    trust = "" if prediction.outside is None else f"; {prediction.outside}"
    if prediction.uncertainty is not None:
        trust = f"; 9 of 10 within {prediction.uncertainty:.1%}"
    title = (
        f"{prediction.duration_ns / 1e6:,.3f} ms, {prediction.provenance.value}: "
        f"{len(step.requests)} requests, {step.new_tokens:,} new tokens, "
        f"{step.padded_tokens:,} with padding{trust}"
    )
    table = Table("operator", box=box.SIMPLE_HEAD, title=title, title_justify="left")
    table.add_column("ms", justify="right")
    table.add_column("%", justify="right")
    table.add_column("from")
    for row in rows:
        share = 100 * row.duration_ns / prediction.duration_ns
        table.add_row(row.name, f"{row.duration_ns / 1e6:,.3f}", f"{share:.1f}", row.source)
    return table

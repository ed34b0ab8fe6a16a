"""`warpserve predict`: one step explained."""

from __future__ import annotations

import json
import re
from typing import Annotated

import typer
from rich import box
from rich.table import Table

from warpserve.console import console
from warpserve.errors import WarpserveError
from warpserve.predictors.asked import asked_deployment
from warpserve.predictors.batch import Batch, RequestStep
from warpserve.predictors.captured import padded_tokens
from warpserve.predictors.deployment import KV_CACHE_TYPES
from warpserve.predictors.predictor import OperatorTime, Prediction, PredictorError
from warpserve.predictors.spec import predictor_of
from warpserve.predictors.strict import Strict

_GROUP = re.compile(r"(\d+)x(\d+)@(\d+)")
_PREFILL = re.compile(r"(\d+)x(\d+)(?:\+(\d+))?")
_DECODE = re.compile(r"(\d+)x(\d+)")


def predict(
    model: Annotated[str, typer.Option(help="a name (`warpserve models`), hub id or folder")],
    gpu: Annotated[str, typer.Option(help="such as h100-sxm (`warpserve gpus`)")],
    prefill: Annotated[
        list[str] | None,
        typer.Option(help="COUNTxNEW+CACHED tokens, such as 1x2048+6144; may be repeated"),
    ] = None,
    decode: Annotated[
        list[str] | None,
        typer.Option(help="COUNTxCONTEXT tokens, such as 32x1024; may be repeated"),
    ] = None,
    batch: Annotated[
        str | None,
        typer.Option(help="the same in one: COUNTxNEW@CACHED,…, such as 32x1@1024,1x512@0"),
    ] = None,
    engine: Annotated[str, typer.Option(help="ENGINE==VERSION")] = "vllm==0.24.0",
    predictor: Annotated[
        str, typer.Option(help="aiconfigurator, analytic or constant:10ms")
    ] = "aiconfigurator",
    tp: Annotated[int, typer.Option(min=1, help="tensor parallel")] = 1,
    pp: Annotated[int, typer.Option(min=1, help="pipeline parallel: the first stage")] = 1,
    dp: Annotated[int, typer.Option(min=1, help="replicas that share the experts")] = 1,
    ep: Annotated[bool, typer.Option("--ep", help="experts whole on their ranks")] = False,
    weights: Annotated[
        str | None, typer.Option(help="how they are stored, if not as the model says: fp8, int4, …")
    ] = None,
    kv_cache: Annotated[str, typer.Option(help=" or ".join(KV_CACHE_TYPES))] = "bf16",
    padded: Annotated[
        int | None, typer.Option(help="tokens with padding [as vLLM pads by default]")
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="an answer that is extrapolated is an error")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="for programs")] = False,
) -> None:
    """How long a GPU takes for one step of an engine, and what for.

    A request with one new token is a decode.
    """
    try:
        requests = [*_prefills(prefill or []), *_decodes(decode or []), *_groups(batch)]
        if not requests:
            raise PredictorError("which batch? Say --decode 32x1024, --prefill 1x512 or --batch")
        tokens = sum(request.new_tokens for request in requests)
        step = Batch(tuple(requests), padded_tokens(tokens) if padded is None else padded)
        deployment = asked_deployment(
            model, gpu, engine, tp=tp, pp=pp, dp=dp, ep=ep, weights=weights, kv_cache=kv_cache
        )
        chosen = predictor_of(predictor, deployment)
        if strict:
            chosen = Strict(chosen)
        prediction, rows = chosen.predict(step), chosen.explain(step)
    except (PredictorError, WarpserveError) as error:
        typer.echo(f"warpserve: {error}", err=True)
        raise typer.Exit(2) from None
    if as_json:
        typer.echo(json.dumps(_document(step, prediction, rows), indent=2))
    else:
        console().print(_table(step, prediction, rows))


def _prefills(texts: list[str]) -> list[RequestStep]:
    requests = []
    for text in texts:
        count, new, cached = _numbers(_PREFILL, text, "COUNTxNEW+CACHED, such as 1x2048+6144")
        requests += [RequestStep(new, cached, is_prefill=True)] * count
    return requests


def _decodes(texts: list[str]) -> list[RequestStep]:
    requests = []
    for text in texts:
        count, context = _numbers(_DECODE, text, "COUNTxCONTEXT, such as 32x1024")
        requests += [RequestStep(1, context, is_prefill=False)] * count
    return requests


def _groups(text: str | None) -> list[RequestStep]:
    requests = []
    for group in text.split(",") if text else ():
        count, new, cached = _numbers(_GROUP, group, "COUNTxNEW@CACHED, such as 32x1@1024")
        requests += [RequestStep(new, cached, is_prefill=new > 1)] * count
    return requests


def _numbers(pattern: re.Pattern[str], text: str, form: str) -> list[int]:
    match = pattern.fullmatch(text.strip())
    numbers = [int(number or 0) for number in match.groups()] if match else []
    if not numbers or 0 in numbers[: 2 if len(numbers) == 3 else 1]:
        raise PredictorError(f"{text!r} is no group of requests: say {form}")
    return numbers


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

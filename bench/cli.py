"""`warpserve bench`: a whole experiment."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.table import Table

from warpserve.bench.clients import result_table
from warpserve.bench.config import RunConfig
from warpserve.bench.experiment import run_experiment
from warpserve.bench.kv_cache import kv_tokens_of_file
from warpserve.bench.options import EnginePython, Out
from warpserve.bench.predictions import PredictedSteps
from warpserve.bench.run_folder import RunFolder, dated_folder
from warpserve.bench.summary import Serving, Spread, Summary
from warpserve.console import console, fail
from warpserve.errors import WarpserveError
from warpserve.predictors.predictor import Provenance
from warpserve.timekeeper.options import Clock


def bench(
    arguments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[RUN.yaml] [-- ENGINE FLAGS]",
            help="an experiment in a file, over which options go; the engine's own flags",
        ),
    ] = None,
    engine: Annotated[str | None, typer.Option(help="ENGINE==VERSION [vllm==0.24.0]")] = None,
    engine_python: EnginePython = None,
    model: Annotated[
        str | None, typer.Option(help="a name (`warpserve models`), hub id or folder")
    ] = None,
    gpu: Annotated[str | None, typer.Option(help="such as h100-sxm:1 (`warpserve gpus`)")] = None,
    predictor: Annotated[
        str | None, typer.Option(help="how long steps take, such as constant:10ms")
    ] = None,
    strict: Annotated[
        bool | None,
        typer.Option("--strict/--no-strict", help="an extrapolated step is an error [no]"),
    ] = None,
    workload: Annotated[
        str | None, typer.Option(help="a name or a file (`warpserve workload`) [sharegpt]")
    ] = None,
    arrival: Annotated[
        str | None,
        typer.Option(help="poisson, gamma:0.5, closed:8, trace, … (docs/workloads.md) [poisson]"),
    ] = None,
    rate: Annotated[float | None, typer.Option(help="requests a second, or inf [4]")] = None,
    rate_scale: Annotated[
        float | None, typer.Option(help="how many times as fast recorded arrivals come [1]")
    ] = None,
    max_concurrency: Annotated[int | None, typer.Option(help="requests under way [any]")] = None,
    num_requests: Annotated[int | None, typer.Option(help="[200]")] = None,
    temperature: Annotated[
        float | None, typer.Option(help="of all requests [what the engine's own client asks]")
    ] = None,
    top_p: Annotated[float | None, typer.Option(help="likewise")] = None,
    top_k: Annotated[int | None, typer.Option(help="likewise")] = None,
    client: Annotated[
        str | None, typer.Option(help="stock (the engine's own) or own [stock where it can]")
    ] = None,
    fast: Annotated[
        bool | None,
        typer.Option(
            "--fast/--streamed",
            help="ask without streaming; the engine's step log tells when tokens came [streamed]",
        ),
    ] = None,
    kv_from: Annotated[
        Path | None,
        typer.Option(help="a real server's log: a KV cache of as many tokens as it had"),
    ] = None,
    acceptance: Annotated[
        str | None, typer.Option(help="of drafted tokens, a rate a position, such as 0.8,0.6")
    ] = None,
    ghost_ranks: Annotated[
        bool | None,
        typer.Option(
            "--ghost-ranks/--no-ghost-ranks",
            help="one worker stands for a tensor-parallel group where that is safe [yes]",
        ),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="[0]")] = None,
    clock: Annotated[Clock | None, typer.Option(help="exact, live or sleep [exact]")] = None,
    out: Out = None,
) -> None:
    """Run an engine on virtual GPUs under a workload, and leave a folder with all about it."""
    run, engine_flags = split_arguments(arguments or [])
    folder = out or dated_folder()
    try:
        config = RunConfig.read(
            run,
            engine=engine,
            engine_python=engine_python,
            model=model,
            gpu=gpu,
            predictor=predictor,
            strict=strict,
            workload=workload,
            arrival=arrival,
            rate=rate,
            rate_scale=rate_scale,
            max_concurrency=max_concurrency,
            num_requests=num_requests,
            temperature=temperature,
            top_p=top_p,
            top_k=top_k,
            client=client,
            fast=fast,
            kv_tokens=None if kv_from is None else kv_tokens_of_file(kv_from),
            acceptance=acceptance,
            ghost_ranks=ghost_ranks,
            seed=seed,
            clock=clock,
            engine_flags=engine_flags or None,
        )
        with console(stderr=True).status(f"running, see {folder}"):
            summary = run_experiment(config, folder)
    except WarpserveError as error:
        fail(error)
    typer.echo(result_table(RunFolder(folder).client_log.read_text(errors="replace")), nl=False)
    console().print(_table(summary))
    console().print(_host_table(summary.host.serving))
    console().print(_predicted_table(summary.predicted_steps))
    if warning := summary.predicted_steps.warning:
        typer.echo(f"warpserve: warning: {warning}", err=True)
    console().print(_speed(summary, folder), soft_wrap=True)
    for reason, count in summary.reasons.items():
        typer.echo(f"warpserve: {count} x {reason}", err=True)
    if summary.completed != summary.sent + summary.not_sent:
        raise typer.Exit(1)


def split_arguments(arguments: Sequence[str]) -> tuple[Path | None, list[str]]:
    """The experiment's file, if the first is none of the engine's flags, and these flags."""
    if arguments and not arguments[0].startswith("-"):
        return Path(arguments[0]), list(arguments[1:])
    return None, list(arguments)


def _table(summary: Summary) -> Table:
    table = Table("ms", "mean", "P50", "P90", "P99", box=box.SIMPLE_HEAD)
    for name in ("ttft", "tpot", "itl", "latency"):
        spread: Spread | None = getattr(summary, name)
        if spread is not None:
            values = (spread.mean_ms, spread.p50_ms, spread.p90_ms, spread.p99_ms)
            table.add_row(name.upper(), *(f"{value:,.3f}" for value in values))
    return table


def _host_table(serving: Serving) -> Table:
    table = Table("process", "CPU a step, ms", "resident, MiB", box=box.SIMPLE_HEAD)
    for process in serving.noticeable_processes:
        cpu_ms = process.cpu_s * 1e3 / max(1, serving.steps)
        table.add_row(process.name, f"{cpu_ms:.2f}", f"{process.resident_bytes / 2**20:,.0f}")
    return table


def _predicted_table(steps: PredictedSteps) -> Table:
    table = Table("steps", box=box.SIMPLE_HEAD)
    names = [each.value for each in Provenance if getattr(steps, each.value)]
    for name in (*names, "of time extrapolated", "lookups: hits", "misses"):
        table.add_column(name, justify="right")
    table.add_row(
        f"{steps.total:,}",
        *(f"{getattr(steps, name):,}" for name in names),
        f"{steps.extrapolated_time_share:.2%}",
        f"{steps.lookup_hits:,}",
        f"{steps.lookup_misses:,}",
    )
    return table


def _speed(summary: Summary, folder: Path) -> str:
    host, serving = summary.host, summary.host.serving
    return (
        f"{summary.counts}; "
        f"{host.virtual_s:.1f} s of virtual time in {host.wall_s:.1f} s "
        f"({host.virtual_s / host.wall_s:.1f}x, start-up included); {serving.steps} steps in "
        f"{serving.wall_s:.1f} s ({serving.wall_s * 1e3 / max(1, serving.steps):.2f} ms a step); "
        f"all of it is in {folder}"
    )

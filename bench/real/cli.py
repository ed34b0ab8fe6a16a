"""`warpserve import`: what other tools wrote, in one form."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.table import Table

from warpserve.bench.real.files import write_run
from warpserve.bench.real.metrics import METRICS, STATISTICS, TITLES, throughputs, values_of
from warpserve.bench.real.read import FORMATS, merged, read_run, with_said
from warpserve.bench.real.schema import Part, Run
from warpserve.console import console, fail
from warpserve.errors import WarpserveError

_FORMATS = ", ".join(known.NAME for known in FORMATS)


def import_run(
    files: Annotated[
        list[Path],
        typer.Argument(help="of one run: a result, and what belongs to it, such as a server's log"),
    ],
    out: Annotated[
        Path | None, typer.Option(help="the file to write, such as real.json.gz [nothing]")
    ] = None,
    format_name: Annotated[
        str | None, typer.Option("--format", help=f"of the first file: {_FORMATS} [as it looks]")
    ] = None,
    select: Annotated[
        int | None, typer.Option(help="which run of a file with several, from 1 on")
    ] = None,
    said: Annotated[
        list[str] | None,
        typer.Option("--set", help="what no file says, such as deployment.gpu=h100-sxm"),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="the run, for programs")] = False,
) -> None:
    """Read a real run from what a benchmark tool or a server left behind, whichever it was."""
    try:
        run = read_run(files[0], format_name, select)
        run = with_said(merged(run, [read_run(file) for file in files[1:]]), said or [])
    except WarpserveError as error:
        fail(error)
    if out is not None:
        write_run(out, run)
    if as_json:
        typer.echo(run.model_dump_json(indent=2))
        return
    _show(run)
    show_warnings(run)


def show_warnings(run: Run) -> None:
    """On stderr: what its readers did not understand."""
    for warning, count in run.warnings.items():
        typer.echo(f"warpserve: warning: {warning} ({count})", err=True)


def _show(run: Run) -> None:
    failed = len(run.requests) - len(run.completed)
    console().print(f"{len(run.completed)} requests completed, {failed} failed")
    table = Table("", "", box=box.SIMPLE_HEAD, show_header=False)
    for part in (run.deployment, run.workload):
        for name, value in _known(part).items():
            table.add_row(name.replace("_", " "), value)
    console().print(table)
    console().print(_figures(run))
    unknown = type(run.deployment).model_fields.keys() - _known(run.deployment) - {"arguments"}
    if unknown:
        names = sorted(name.replace("_", " ") for name in unknown)
        console().print(f"not said: {', '.join(names)}")


def _known(part: Part) -> dict[str, str]:
    values = part.model_dump(mode="json", exclude_none=True, exclude={"arguments"})
    return {name: _short(value) for name, value in values.items()}


def _short(value: object) -> str:
    if isinstance(value, list) and len(value) > 8:
        return f"{value[0]} to {value[-1]}, {len(value)} sizes"
    return str(value)


def _figures(run: Run) -> Table:
    table = Table("ms", "values", *STATISTICS, box=box.SIMPLE_HEAD)
    for metric in METRICS:
        values = values_of(run, metric)
        if len(values):
            cells = [f"{statistic(values) * 1e3:,.3f}" for statistic in STATISTICS.values()]
            table.add_row(TITLES[metric], f"{len(values):,}", *cells)
        elif metric in run.reported_s:
            reported = run.reported_s[metric]
            cells = [f"{reported[n] * 1e3:,.3f}" if n in reported else "" for n in STATISTICS]
            table.add_row(TITLES[metric], "as reported", *cells)
    for name, value in throughputs(run).items():
        unit = "s" if name == "makespan" else "a second"
        table.add_row(f"{name.replace('_', ' ')}, {unit}", "", f"{value:,.3f}")
    return table

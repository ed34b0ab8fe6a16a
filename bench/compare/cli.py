"""`warpserve compare`: an emulated run beside the real one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.table import Table

from warpserve.bench.compare.comparison import Comparison, compare
from warpserve.bench.compare.curves import TITLES as CURVES
from warpserve.bench.compare.figures import Figure
from warpserve.bench.compare.page import write_page
from warpserve.bench.compare.thresholds import Threshold, exceeded
from warpserve.bench.real.metrics import TITLES
from warpserve.bench.real.read import read_run
from warpserve.console import console, fail
from warpserve.errors import WarpserveError


def compare_runs(
    run: Annotated[Path, typer.Argument(help="a run folder, or anything `warpserve import` reads")],
    reals: Annotated[
        list[Path],
        typer.Argument(metavar="REAL…", help="likewise; several show how far real runs are apart"),
    ],
    html: Annotated[Path | None, typer.Option(help="a page with tables and plots")] = None,
    max_error: Annotated[
        list[str] | None,
        typer.Option(help="such as ttft.p50=2%; an error beyond it makes the exit code 1"),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="compare even runs of different things")
    ] = False,
    seed: Annotated[int, typer.Option(help="of the intervals' bootstrap")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="for programs")] = False,
) -> None:
    """How far a run is from real ones: TTFT, TPOT, ITL, latency, throughput, and load over time."""
    try:
        thresholds = [Threshold.parse(text) for text in max_error or ()]
        paths = [run, *reals]
        runs = [read_run(path) for path in paths]
        names = [str(path) for path in paths]
        comparison = compare(runs[0], runs[1:], names, force=force, seed=seed)
        too_large = exceeded(comparison, thresholds)
        if html is not None:
            write_page(html, comparison, runs)
    except WarpserveError as error:
        fail(error)
    if as_json:
        typer.echo(comparison.model_dump_json(indent=2))
    else:
        show(comparison)
    for line in too_large:
        typer.echo(f"warpserve: {line}", err=True)
    if too_large:
        raise typer.Exit(1)


def show(comparison: Comparison) -> None:
    """Prints it."""
    printed = console()
    for difference in comparison.differences:
        printed.print(f"differs: {difference}", soft_wrap=True)
    for note in comparison.notes:
        printed.print(note, soft_wrap=True)
    printed.print(_metrics(comparison))
    printed.print(_others(comparison))


def _metrics(comparison: Comparison) -> Table:
    has_spread = len(comparison.reals) > 1
    table = Table("ms", "", "run", "real", "error", "95 % interval", box=box.SIMPLE_HEAD)
    if has_spread:
        table.add_column("real runs apart")
    for name, metric in comparison.metrics.items():
        distance = "" if metric.ks_distance is None else f"KS {metric.ks_distance:.3f}"
        for statistic, figure in metric.statistics.items():
            table.add_row(
                TITLES[name] if statistic == "mean" else distance if statistic == "p50" else "",
                statistic if statistic == "mean" else statistic.upper(),
                f"{figure.run * 1e3:,.3f}",
                f"{figure.real * 1e3:,.3f}",
                f"{figure.error:+.2%}",
                interval(figure),
                *([spread(figure)] if has_spread else []),
            )
    return table


def _others(comparison: Comparison) -> Table:
    table = Table("", "run", "real", "error", box=box.SIMPLE_HEAD)
    for name, figure in comparison.throughput.items():
        unit = "s" if name == "makespan" else "a second"
        table.add_row(
            f"{name.replace('_', ' ')}, {unit}",
            f"{figure.run:,.3f}",
            f"{figure.real:,.3f}",
            f"{figure.error:+.2%}",
        )
    for name, curve in comparison.curves.items():
        distance = "" if curve.distance is None else f"{curve.distance:.2%} apart"
        table.add_row(
            f"{CURVES[name]}, mean", f"{curve.run_mean:,.2f}", f"{curve.real_mean:,.2f}", distance
        )
    return table


def interval(figure: Figure) -> str:
    if figure.error_low is None or figure.error_high is None:
        return ""
    return f"{figure.error_low:+.2%} to {figure.error_high:+.2%}"


def spread(figure: Figure) -> str:
    if figure.spread_low is None or figure.spread_high is None:
        return ""
    return f"{figure.spread_low:+.2%} to {figure.spread_high:+.2%}"

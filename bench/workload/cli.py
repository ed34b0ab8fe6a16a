"""`warpserve workload`: what workloads there are, and what one is like."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.table import Table

from warpserve.bench.models import model_named
from warpserve.bench.workload.arrivals import LARGEST_SEED, Arrival
from warpserve.bench.workload.description import Description, describe
from warpserve.bench.workload.export import export
from warpserve.bench.workload.named import ABOUT, DRAWN, requests_of
from warpserve.bench.workload.plan import Planned, plan
from warpserve.bench.workload.plot import write_plot
from warpserve.bench.workload.request import Request
from warpserve.console import console, fail
from warpserve.errors import WarpserveError

_DRAWN_REQUESTS = 1_000


def workload(
    name: Annotated[
        str | None, typer.Argument(help="a workload, its options or a file (CSV, JSON lines)")
    ] = None,
    num_requests: Annotated[
        int | None, typer.Option(min=1, help=f"the first ones [all; {_DRAWN_REQUESTS} if drawn]")
    ] = None,
    arrival: Annotated[
        str | None, typer.Option(help="as for `warpserve bench` [trace, where times are recorded]")
    ] = None,
    rate: Annotated[
        float | None, typer.Option(help="requests a second [4, where arrivals have one]")
    ] = None,
    rate_scale: Annotated[float, typer.Option(help="how many times as fast a trace comes")] = 1.0,
    seed: Annotated[int, typer.Option(min=0, max=LARGEST_SEED)] = 0,
    model: Annotated[str, typer.Option(help="whose tokenizer counts texts")] = "llama-3.1-8b",
    json: Annotated[bool, typer.Option("--json", help="for programs")] = False,
    plot: Annotated[
        Path | None, typer.Option(help="draw lengths and arrivals: a .png, .svg or .pdf")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="export it to a file, see --format")] = None,
    file_format: Annotated[
        str,
        typer.Option(
            "--format",
            help="vllm (custom data set), guidellm, mooncake (for aiperf, sglang, timed_trace)",
        ),
    ] = "mooncake",
) -> None:
    """Look at a workload, draw it, or export it for other clients; without a name: list them."""
    if name is None:
        console().print(_list())
        return
    try:
        tokenizer = model_named(model).tokenizer()
        is_drawn = name.partition(":")[0] in DRAWN
        count = num_requests or (_DRAWN_REQUESTS if is_drawn else None)
        requests = requests_of(name, count, seed, tokenizer)
        planned = _planned(requests, arrival, rate, rate_scale, seed)
        description = describe(name, planned)
        if plot is not None:
            write_plot(plot, name, planned)
        if out is not None:
            export(out, file_format, planned, tokenizer, seed)
    except (WarpserveError, OSError) as error:
        fail(error)
    if json:
        typer.echo(description.model_dump_json(indent=2))
    else:
        console().print(*_shown(description), sep="\n")


def _planned(
    requests: list[Request],
    arrival: str | None,
    rate: float | None,
    rate_scale: float,
    seed: int,
) -> list[Planned]:
    has_times = requests[0].arrival_ns is not None
    chosen = Arrival.parse(arrival or ("trace" if has_times else "burst"))
    rate = chosen.rate_of(rate, rate_scale)
    return plan(requests, chosen, rate=rate, rate_scale=rate_scale, seed=seed)


def _list() -> Table:
    table = Table("workload", "what", box=box.SIMPLE_HEAD)
    for name, what in ABOUT.items():
        table.add_row(name, what)
    return table


def _shown(found: Description) -> tuple[Table, str]:
    table = Table("tokens", "mean", "min", "P50", "P90", "P99", "max", box=box.SIMPLE_HEAD)
    for name, spread in (("input", found.input_tokens), ("output", found.output_tokens)):
        values = (spread.mean, spread.min, spread.p50, spread.p90, spread.p99, spread.max)
        table.add_row(name, *(f"{value:,.0f}" for value in values))
    return table, "\n".join([_counts(found), _arrivals(found)])


def _counts(found: Description) -> str:
    sessions = f", {found.sessions:,} sessions of several turns" if found.sessions else ""
    shared = found.shared_prefix_share
    prefixes = (
        "" if shared is None else f"; {shared:.1%} of the input tokens are a prefix sent before"
    )
    return f"{found.requests:,} requests{sessions}{prefixes}"


def _arrivals(found: Description) -> str:
    arrivals = found.arrivals
    if arrivals is None or arrivals.rate_per_s is None:
        return "no arrivals over time: --arrival says some"
    return (
        f"{arrivals.rate_per_s:,.3f} requests a second for {arrivals.span_s:,.1f} s; intervals "
        f"vary by {arrivals.interval_variation:.2f} of their mean"
    )

"""`warpserve fit`: a predictor from recorded steps."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.table import Table

from warpserve.console import console
from warpserve.predictors.learned.fit import fit as learn
from warpserve.predictors.learned.predictor import Regression
from warpserve.predictors.predictor import PredictorError
from warpserve.predictors.replay import recorded_steps


def fit(
    steps: Annotated[str, typer.Argument(help="a step log, or a folder of them: RUN/steps")],
    out: Annotated[Path, typer.Option(help="the file to write")],
) -> None:
    """Learn from recorded steps how long others take; use it with --predictor learned:FILE."""
    try:
        recorded = [(s.batch, s.prediction.duration_ns) for s in recorded_steps(steps)]
        regression = learn(recorded, str(Path(steps).absolute()))
    except PredictorError as error:
        typer.echo(f"warpserve: {error}", err=True)
        raise typer.Exit(2) from None
    out.write_text(regression.to_json())
    console().print(_table(regression))
    typer.echo(
        f"{regression.steps:,} steps; error at steps left out: median "
        f"{regression.held_out_median:.1%}, 9 of 10 within {regression.held_out_p90:.1%}; "
        f"written to {out}"
    )


def _table(regression: Regression) -> Table:
    table = Table("what takes time", box=box.SIMPLE_HEAD)
    table.add_column("ns for one", justify="right")
    table.add_column("largest seen", justify="right")
    rows = zip(regression.names, regression.coefficients_ns, regression.largest, strict=True)
    for name, coefficient_ns, largest in rows:
        table.add_row(name, f"{coefficient_ns:,.2f}", f"{largest:,.0f}")
    return table

"""`warpserve fit`: a predictor from recorded steps."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.table import Table

from warpserve.console import console, fail
from warpserve.predictors.learned.bent_line import BentLine
from warpserve.predictors.learned.features import NAMES
from warpserve.predictors.learned.fit import fit as learn
from warpserve.predictors.learned.predictor import Regression
from warpserve.predictors.origin import Origin, origin_of_recording
from warpserve.predictors.predictor import PredictorError
from warpserve.predictors.replay import recorded_steps, steps_of_first_stages


def fit(
    steps: Annotated[str, typer.Argument(help="a step log, or a folder of them: RUN/steps")],
    out: Annotated[Path, typer.Option(help="the file to write")],
) -> None:
    """Learn from recorded steps how long others take; use it with --predictor learned:FILE."""
    try:
        first = steps_of_first_stages(recorded_steps(steps))
        recorded = [(step.batch, step.prediction.duration_ns) for step in first]
        origin = origin_of_recording(steps)
        regression = learn(recorded, str(Path(steps).absolute()), origin)
    except PredictorError as error:
        fail(error)
    out.write_text(regression.to_json())
    console().print(_table(regression))
    typer.echo(f"{regression.any.steps:,} steps{_whose(origin)}; written to {out}")


def _whose(origin: Origin | None) -> str:
    if origin is None:
        return ", nobody has said of which deployment: they will be taken for those of any"
    engine = f"{origin['engine']} {origin['engine_version']}"
    return f" of {engine} on {origin['gpu']}, tensor parallel {origin['tensor_parallel']}"


def _table(regression: Regression) -> Table:
    """A column for each kind of steps, and one for those of a kind that there are too few of."""
    stages = {**regression.stages, "any other": regression.any}
    table = Table("ms for the largest seen", *stages, box=box.SIMPLE_HEAD)
    for index, name in enumerate(NAMES):
        table.add_row(
            name,
            *(_largest(stage.lines[index], stage.largest[index]) for stage in stages.values()),
        )
    table.add_section()
    table.add_row("steps", *(f"{stage.steps:,}" for stage in stages.values()))
    table.add_row("held out, median", *(f"{s.held_out_median:.1%}" for s in stages.values()))
    table.add_row("9 of 10 within", *(f"{s.held_out_p90:.1%}" for s in stages.values()))
    return table


def _largest(line: BentLine, largest: float) -> str:
    """Such as ``1.234 (2,048)``."""
    return f"{line.at_ns(largest) / 1e6:,.3f} ({largest:,.0f})" if largest else ""

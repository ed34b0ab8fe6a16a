"""`warpserve report`: a run's page and trace once more, from its folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from pydantic import ValidationError

from warpserve.bench.real.formats.run_folder import read_config, read_requests
from warpserve.bench.report.page import write_report
from warpserve.bench.report.trace import write_trace
from warpserve.bench.run_folder import RunError, RunFolder
from warpserve.bench.summary import Summary
from warpserve.console import fail
from warpserve.errors import WarpserveError


def report(
    run: Annotated[Path, typer.Argument(help="the folder of a `warpserve bench`")],
) -> None:
    """Make a run's report.html and trace.json once more, as this version draws them."""
    folder = RunFolder(run)
    try:
        config, requests = read_config(folder), read_requests(folder)
        write_report(folder, config, requests, _summary(folder))
        write_trace(folder, requests)
    except WarpserveError as error:
        fail(error)
    typer.echo(f"{folder.report}\n{folder.trace}")


def _summary(folder: RunFolder) -> Summary:
    try:
        return Summary.model_validate_json(folder.summary.read_text())
    except (OSError, ValidationError) as error:
        raise RunError(f"{folder.summary} is no summary of a run: {error}") from None

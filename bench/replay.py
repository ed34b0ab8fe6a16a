"""`warpserve replay`: a real run again, on virtual GPUs, and both beside each other."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
import yaml

from warpserve.bench.compare.cli import show
from warpserve.bench.compare.comparison import Comparison, compare
from warpserve.bench.compare.page import write_page
from warpserve.bench.compare.thresholds import Threshold, exceeded
from warpserve.bench.experiment import run_experiment
from warpserve.bench.options import EnginePython, Out
from warpserve.bench.real.cli import show_warnings
from warpserve.bench.real.files import write_run
from warpserve.bench.real.read import merged, read_run, with_said
from warpserve.bench.run_folder import dated_folder
from warpserve.bench.summary import Summary
from warpserve.bench.twin import Twin, twin_of, write_arrivals
from warpserve.console import console, fail
from warpserve.errors import WarpserveError


def replay(
    arguments: Annotated[
        list[str],
        typer.Argument(
            metavar="REAL… [-- ENGINE FLAGS]",
            help="files of one run, as `warpserve import` reads them; engine flags beside its own",
        ),
    ],
    predictor: Annotated[str, typer.Option(help="how long steps take")] = "aiconfigurator",
    out: Out = None,
    engine: Annotated[
        str | None, typer.Option(help="another than the real one, such as vllm==0.24.0")
    ] = None,
    engine_python: EnginePython = None,
    model: Annotated[str | None, typer.Option(help="where the run does not name it well")] = None,
    gpu: Annotated[str | None, typer.Option(help="where the run does not say it")] = None,
    fast: Annotated[
        bool, typer.Option("--fast/--streamed", help="as `warpserve bench` has it [streamed]")
    ] = False,
    acceptance: Annotated[
        str | None, typer.Option(help="of drafted tokens, as `warpserve bench` has it")
    ] = None,
    said: Annotated[
        list[str] | None, typer.Option("--set", help="what no file says, as `import` takes it")
    ] = None,
    max_error: Annotated[
        list[str] | None, typer.Option(help="as `compare` takes it, such as ttft.p50=2%")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="only print the experiment, as YAML")
    ] = False,
) -> None:
    """Send a real run's requests to its emulated twin, and show how far apart both are."""
    folder = out or dated_folder()
    files, flags = _split(arguments)
    try:
        thresholds = [Threshold.parse(text) for text in max_error or ()]
        real = with_said(
            merged(read_run(files[0]), [read_run(file) for file in files[1:]]), said or []
        )
        show_warnings(real)
        twin = twin_of(
            real,
            arrivals_file(folder),
            flags=flags,
            predictor=predictor,
            engine=engine,
            engine_python=engine_python,
            model=model,
            gpu=gpu,
            acceptance=acceptance,
            fast=fast or None,
        )
        for note in twin.notes:
            typer.echo(f"warpserve: {note}", err=True)
        if dry_run:
            document = twin.config.model_dump(mode="json")
            typer.echo(yaml.safe_dump(document, sort_keys=False), nl=False)
            return
        with console(stderr=True).status(f"running, see {folder}"):
            comparison = run_beside(twin, folder, str(files[0]))
        too_large = exceeded(comparison, thresholds)
    except WarpserveError as error:
        fail(error)
    show(comparison)
    console().print(f"all of it is in {folder}; see comparison.html", soft_wrap=True)
    for line in too_large:
        typer.echo(f"warpserve: {line}", err=True)
    if too_large:
        raise typer.Exit(1)


def run_beside(twin: Twin, out: Path, name: str) -> Comparison:
    """Runs the twin into ``out``, and leaves there the real run and how far apart both are.

    ``name``: of the real run. Raises WarpserveError.
    """
    run_twin(twin, out)
    write_run(out / "real.json.gz", twin.sent)
    run = read_run(out)
    # What differs was decided before, and said: a twin is compared whatever came out.
    comparison = compare(run, [twin.sent], [str(out), name], force=True)
    (out / "comparison.json").write_text(comparison.model_dump_json(indent=2) + "\n")
    write_page(out / "comparison.html", comparison, [run, twin.sent])
    return comparison


def run_twin(twin: Twin, out: Path) -> Summary:
    """Into ``out``. Raises WarpserveError."""
    arrivals = arrivals_file(out)
    arrivals.parent.mkdir(parents=True, exist_ok=True)
    write_arrivals(arrivals, twin.requests)
    return run_experiment(twin.config, out)


def arrivals_file(out: Path) -> Path:
    """Beside the run folder, which must be empty when an experiment begins."""
    return out.with_name(f"{out.name}.arrivals.csv")


def _split(arguments: list[str]) -> tuple[list[Path], list[str]]:
    """Files, and from the first that begins with a dash on the engine's flags."""
    count = next((n for n, text in enumerate(arguments) if text.startswith("-")), len(arguments))
    if count == 0:
        raise typer.BadParameter("name the files of a real run")
    return [Path(text) for text in arguments[:count]], arguments[count:]

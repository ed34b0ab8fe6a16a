"""The command `warpserve`."""

from __future__ import annotations

import sys
from typing import Any

import typer

from warpserve.bench.calibration.cli import calibrate
from warpserve.bench.cli import bench
from warpserve.bench.compare.cli import compare_runs
from warpserve.bench.models.cli import models
from warpserve.bench.predict.cli import predict
from warpserve.bench.real.cli import import_run
from warpserve.bench.record import record
from warpserve.bench.replay import replay
from warpserve.bench.report.cli import report
from warpserve.bench.serve import serve
from warpserve.bench.workload.cli import workload
from warpserve.cuda_shim.api.coverage import cuda_coverage
from warpserve.cuda_shim.catalogue.cli import gpus
from warpserve.patches.engines.cli import engine
from warpserve.predictors.learned.cli import fit
from warpserve.run import run
from warpserve.timekeeper.cli import doctor, status


class _Commands(typer.Typer):
    def __call__(self, *arguments: Any, **options: Any) -> Any:
        """What the file system refuses, such as a name to write to, is said in one line."""
        try:
            return super().__call__(*arguments, **options)
        except OSError as error:
            if error.filename is None:
                raise
            print(f"warpserve: {error.filename}: {error.strerror}", file=sys.stderr)
            sys.exit(1)


app = _Commands(
    help="Run the real vLLM and SGLang without GPUs, with the timing of the GPUs that you name.",
    no_args_is_help=True,
    add_completion=False,
)
app.command(context_settings={"allow_interspersed_args": False})(run)
app.command()(bench)
app.command()(serve)
app.command("import")(import_run)
app.command("compare")(compare_runs)
app.command()(replay)
app.command()(report)
app.command()(status)
app.command()(gpus)
app.command()(models)
app.command()(workload)
app.command()(predict)
app.command(context_settings={"allow_interspersed_args": False})(record)
app.command()(fit)
app.command()(calibrate)
app.command()(doctor)
app.command()(cuda_coverage)
app.add_typer(engine, name="engine")

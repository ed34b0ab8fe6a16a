"""`warpserve record`: what an engine's steps take on a real GPU."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

from warpserve.bench.run_folder import RunError, RunFolder, dated_folder
from warpserve.console import fail
from warpserve.cuda_shim.launch import AUTOLOAD, AUTOLOAD_VARIABLE
from warpserve.errors import WarpserveError
from warpserve.patches.recording import RECORDING


def record(
    command: Annotated[list[str], typer.Argument(help="what starts the engine, after --")],
    out: Annotated[Path | None, typer.Option(help="the folder [runs/DATE-TIME]")] = None,
) -> None:
    """Run vLLM or SGLang as it is, on real GPUs, and record each step's batch and duration.

    What it leaves is for `warpserve fit FOLDER`, --predictor replay:FOLDER and --kv-from
    FOLDER/engine.log. Ends with the command's exit code; 2: nothing was recorded.
    """
    try:
        folder = RunFolder.create(out or dated_folder())
        exit_code = _run(command, _environment(folder, os.environ), folder.engine_log)
        steps = _steps_of_workers(folder)
    except WarpserveError as error:
        fail(error)
    typer.echo(f"warpserve: recorded {steps} steps, see {folder.path}", err=True)
    raise typer.Exit(exit_code if exit_code >= 0 else 128 - exit_code)


def _environment(folder: RunFolder, base: Mapping[str, str]) -> dict[str, str]:
    """What has torch load the recorder in each of the engine's processes."""
    if base.get(AUTOLOAD_VARIABLE) == "0":
        raise RunError(f"{AUTOLOAD_VARIABLE}=0 keeps torch from loading the recorder: unset it")
    paths = [path for path in base.get("PYTHONPATH", "").split(":") if path]
    if str(AUTOLOAD) not in paths:
        paths.insert(0, str(AUTOLOAD))
    return {**base, "PYTHONPATH": ":".join(paths), RECORDING: str(folder.path.absolute())}


def _run(command: Sequence[str], env: Mapping[str, str], log: Path) -> int:
    """The command's exit code, negative for a signal. What it prints goes to ``log``, too."""
    try:
        engine = subprocess.Popen(
            command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
    except OSError as error:
        raise RunError(f"{command[0]}: {os.strerror(error.errno or 0)}") from None
    assert engine.stdout is not None

    def forward(number: int, _frame: FrameType | None) -> None:
        engine.send_signal(number)

    # Ctrl-C reaches the engine from the terminal.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, forward)
    with log.open("wb", buffering=0) as file:
        for line in engine.stdout:
            file.write(line)
            sys.stdout.buffer.write(line)
            sys.stdout.buffer.flush()
    return engine.wait()


def _steps_of_workers(folder: RunFolder) -> str:
    """How many each has recorded, such as ``1,020 + 1,020``. Raises RunError for none at all."""
    counts = [file.read_bytes().count(b"\n") for file in sorted(folder.steps.glob("*.jsonl"))]
    if not any(counts):
        raise RunError(f"no step was recorded: what the command said is in {folder.path}")
    return " + ".join(f"{count:,}" for count in counts)

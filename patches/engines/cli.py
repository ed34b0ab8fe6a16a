"""`warpserve engine`: install, list and remove engine environments."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.table import Table

from warpserve.console import console, fail
from warpserve.errors import WarpserveError
from warpserve.patches.engines import EngineRequirement, EngineStore
from warpserve.patches.engines import install as install_engine
from warpserve.patches.engines import remove as remove_engine
from warpserve.patches.engines.install import log_of

engine = typer.Typer(
    help="Install, list and remove engine environments.", no_args_is_help=True, add_completion=False
)

_Requirement = Annotated[str, typer.Argument(help="ENGINE==VERSION, such as vllm==0.24.0")]


@engine.command()
def install(
    requirement: _Requirement,
    python: Annotated[
        Path | None, typer.Option(help="the Python to make it with; default: one that fits")
    ] = None,
    insist: Annotated[
        bool, typer.Option("--insist", help="also a version that warpserve does not know")
    ] = False,
) -> None:
    """Install an engine into an environment of its own. Takes minutes and about 10 GB."""
    try:
        wanted = EngineRequirement.parse(requirement)
        store = EngineStore()
        with console(stderr=True).status(f"installing {wanted}, see {log_of(wanted, store)}"):
            installed = install_engine(wanted, store=store, python=python, insist=insist)
    except WarpserveError as error:
        fail(error)
    console().print(f"{wanted}: {installed.path}", soft_wrap=True)


@engine.command("list")
def list_engines(
    as_json: Annotated[bool, typer.Option("--json", help="a JSON list")] = False,
) -> None:
    """List the installed engine environments."""
    try:
        engines = list(EngineStore())
    except WarpserveError as error:
        fail(error)
    if as_json:
        print(json.dumps([found.model_dump(mode="json") for found in engines], indent=2))
    elif not engines:
        console().print("none is installed: `warpserve engine install vllm==0.24.0`")
    else:
        table = Table("engine", "version", "path", box=box.SIMPLE_HEAD)
        for found in engines:
            table.add_row(found.engine, found.version, str(found.path))
        console().print(table)


@engine.command()
def remove(requirement: _Requirement) -> None:
    """Remove an engine environment."""
    try:
        remove_engine(EngineRequirement.parse(requirement), store=EngineStore())
    except WarpserveError as error:
        fail(error)

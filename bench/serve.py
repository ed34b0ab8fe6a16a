"""`warpserve serve`: an engine, ready to be used."""

from __future__ import annotations

import http.client
import os
import signal
import socket
from typing import Annotated

import typer
from packaging.version import Version

from warpserve.bench.config import EngineConfig
from warpserve.bench.engine import EngineLaunch, RunningEngine
from warpserve.bench.options import EnginePython
from warpserve.console import fail
from warpserve.errors import WarpserveError
from warpserve.patches.engines import EngineError, EngineStore
from warpserve.timekeeper.options import Clock

_LOOK_S = 0.2  # of host time, between looks whether the server is ready


def serve(
    engine: Annotated[str, typer.Argument(help="vllm, or vllm==0.24.0")],
    model: Annotated[str, typer.Argument(help="a name (`warpserve models`), hub id or folder")],
    gpu: Annotated[str, typer.Option(help="such as h100-sxm:1 (`warpserve gpus`)")],
    predictor: Annotated[str, typer.Option(help="how long steps take, such as constant:10ms")],
    strict: Annotated[
        bool, typer.Option("--strict", help="an extrapolated step is an error")
    ] = False,
    engine_flags: Annotated[
        list[str] | None, typer.Argument(metavar="[-- ENGINE FLAGS]", help="the engine's own")
    ] = None,
    engine_python: EnginePython = None,
    port: Annotated[int, typer.Option(min=1, max=65_535, help="on 127.0.0.1")] = 8000,
    seed: Annotated[int, typer.Option()] = 0,
    clock: Annotated[
        Clock,
        typer.Option(
            help="sleep: answers take the time that they would on the GPUs; exact: they come as "
            "fast as they can, and the server's clock runs ahead while nothing is asked"
        ),
    ] = Clock.SLEEP,
) -> None:
    """Run an engine's server on virtual GPUs until Ctrl-C, for clients of any kind.

    Its output is the engine's. Clients run on real time: to measure in virtual time, use
    `warpserve bench`, or `warpserve run` with a script that starts server and client.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        _require_free(port)
        config = EngineConfig.of(
            engine=engine if engine_python else _installed(engine),
            engine_python=engine_python,
            model=model,
            gpu=gpu,
            predictor=predictor,
            strict=strict,
            seed=seed,
            clock=clock,
            engine_flags=engine_flags or (),
        )
        launch = EngineLaunch(config, port)
        with launch.started(log=None) as server:
            _serve(server, launch)
    except WarpserveError as error:
        fail(error)


def _serve(server: RunningEngine, launch: EngineLaunch) -> None:
    """Until the user ends it. Raises RunError where the server ends of itself."""
    try:
        while not _is_ready(launch.port):
            server.wait(_LOOK_S)
        typer.echo(f"warpserve: {launch.model.reference} at {launch.url}/v1 until Ctrl-C", err=True)
        while True:
            server.wait(None)
    except KeyboardInterrupt:
        server.stop()


def _is_ready(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status == http.client.OK
    except OSError:
        return False
    finally:
        connection.close()


def _require_free(port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise EngineError(
                f"port {port}: {os.strerror(error.errno or 0)}; name another"
            ) from None


def _installed(engine: str) -> str:
    """``engine`` with its version: the newest that is installed, unless it names one."""
    if "==" in engine:
        return engine
    found = [known.requirement for known in EngineStore() if known.engine == engine]
    if not found:
        raise EngineError(f"no {engine} is installed: run `warpserve engine install {engine}==…`")
    return str(max(found, key=lambda requirement: Version(requirement.version)))

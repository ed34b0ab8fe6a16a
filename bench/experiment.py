"""One experiment from its description to its folder: start, wait, collect, stop."""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from warpserve.bench import clients, results, servers
from warpserve.bench.config import RunConfig
from warpserve.bench.environment import describe_environment
from warpserve.bench.models import model_named
from warpserve.bench.report.page import write_report
from warpserve.bench.run_folder import RunError, RunFolder
from warpserve.bench.summary import Summary, summarise
from warpserve.bench.workload.lengths import lengths_of
from warpserve.bench.workload.prompts import write_prompts
from warpserve.cuda_shim.catalogue import machine
from warpserve.members import member_environment, prepare_members
from warpserve.patches.engines import Engine, EngineRequirement, EngineStore
from warpserve.timekeeper.cli import MemberOptions
from warpserve.timekeeper.launcher import RunningSession
from warpserve.timekeeper.options import SessionOptions
from warpserve.timekeeper.state import SessionState

_SCRAPER = Path(__file__).with_name("scrape.py")
_STOP_LIMIT_S = 60.0  # of host time, for an engine to end in order


@dataclass(frozen=True)
class _Commands:
    server: list[str]
    client: list[str]
    scraper: list[str]


def run_experiment(config: RunConfig, out: Path) -> Summary:
    """Runs it and fills the folder ``out``.

    Raises WarpserveError: before anything has started, where the description asks for what is not
    there; RunError afterwards, with the folder kept.
    """
    engine_bin = _engine_bin(config)
    gpus = len(machine(config.gpu).devices)
    model = model_named(config.model)
    lengths = lengths_of(config.workload, config.num_requests)
    prepare_members(
        MemberOptions(gpu=config.gpu, predictor=config.predictor), [str(engine_bin / "vllm")]
    )
    folder = RunFolder.create(out)
    write_prompts(folder.prompts, lengths, model.tokenizer(), config.seed)
    port = _free_port()
    commands = _Commands(
        servers.vllm_serve(
            config, engine_bin=engine_bin, model=model.reference, port=port, gpus=gpus
        ),
        clients.vllm_bench_serve(
            config, engine_bin=engine_bin, model=model.reference, port=port, folder=folder
        ),
        [
            sys.executable,
            str(_SCRAPER),
            f"http://127.0.0.1:{port}/metrics",
            str(folder.metrics),
            str(config.metrics_interval_s),
        ],
    )
    folder.config.write_text(yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False))
    describe_environment(folder, engine_bin / "python", [commands.server, commands.client])
    state = _run(config, folder, commands)
    requests = results.read_vllm_results(folder.client_result)
    results.write_requests(folder.requests, requests)
    summary = summarise(config, requests, state)
    folder.summary.write_text(summary.model_dump_json(indent=2) + "\n")
    write_report(folder, config, requests, summary)
    return summary


def _engine_bin(config: RunConfig) -> Path:
    if config.engine_python is not None:
        return config.engine_python.parent
    engine: Engine = EngineStore().get(EngineRequirement.parse(config.engine))
    return engine.python.parent


def _run(config: RunConfig, folder: RunFolder, commands: _Commands) -> SessionState:
    with RunningSession(SessionOptions(clock=config.clock)) as session:
        asked = MemberOptions(gpu=config.gpu, predictor=config.predictor, step_log=folder.steps)
        env = member_environment(asked, session.folder, commands.server)
        server = _start(session, commands.server, env, folder.engine_log)
        client = _start(session, commands.client, env, folder.client_log)
        _start(session, commands.scraper, env, folder.path / "scraper.log")
        client_code = _wait_for_client(session, client, server, folder)
        _stop(session, server)
        state = session.end()
    if client_code != 0:
        raise RunError(f"the client failed (exit code {client_code}): see {folder.client_log}")
    if state is None:
        raise RunError("the Timekeeper died")
    return state


def _start(session: RunningSession, command: list[str], env: Mapping[str, str], log: Path) -> int:
    with log.open("wb") as output, Path(os.devnull).open("rb") as nothing:
        return session.spawn(
            command, env=env, stdio=(nothing.fileno(), output.fileno(), output.fileno())
        )


def _wait_for_client(session: RunningSession, client: int, server: int, folder: RunFolder) -> int:
    while True:
        exited = session.wait_exited()
        if exited is None:
            continue
        if exited.pid == client:
            return exited.exit_code
        if exited.pid == server:
            raise RunError(
                f"the engine ended in mid-run (exit code {exited.exit_code}): "
                f"see {folder.engine_log}"
            )


def _stop(session: RunningSession, server: int) -> None:
    os.kill(server, signal.SIGTERM)
    session.wait_exited(_STOP_LIMIT_S)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port

"""One experiment from its description to its folder: start, wait, collect, stop."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import NamedTuple

import yaml

from warpserve.bench import clients, results
from warpserve.bench.config import RunConfig
from warpserve.bench.engine import EngineEnded, EngineLaunch, RunningEngine, has_steps
from warpserve.bench.environment import describe_environment, engine_versions
from warpserve.bench.host_cost import HostMeter
from warpserve.bench.kv_cache import kv_tokens
from warpserve.bench.metrics import (
    drop_later_readings,
    scraper_command,
    wait_for_last_reading,
)
from warpserve.bench.models import model_named
from warpserve.bench.predictions import PredictedSteps
from warpserve.bench.report.page import write_report
from warpserve.bench.report.trace import write_trace
from warpserve.bench.run_folder import RunError, RunFolder
from warpserve.bench.summary import Serving, Summary, summarise
from warpserve.bench.workload import Planned, plan, requests_of
from warpserve.patches.vllm import held_outputs
from warpserve.timekeeper.options import Clock
from warpserve.timekeeper.state import SessionState

_LOOK_S = 0.25  # of host time, between looks at the processes and at the steps
_CLIENT_LIMIT_S = 30.0  # of host time, for a client that has lost its server


def run_experiment(config: RunConfig, out: Path) -> Summary:
    """Runs it and fills the folder ``out``.

    Raises WarpserveError: before anything has started, where the description asks for what is not
    there; RunError afterwards, with the folder kept.
    """
    planned = planned_of(config)
    as_stock = clients.sends_as_stock(config, planned)
    launch = EngineLaunch(config)
    versions = engine_versions(launch.python)
    folder = RunFolder.create(out)
    client = clients.prepare_client(config, planned, launch, folder, as_stock=as_stock)
    folder.config.write_text(yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False))
    describe_environment(folder, versions, [launch.command, client])
    ran = _run(config, launch, client, folder)
    if ran.failure is not None and not folder.client_result.exists():
        raise RunError(ran.failure)
    summary = _collect(config, planned, folder, ran, as_stock=as_stock)
    if ran.failure is not None:
        raise RunError(f"{ran.failure}; {summary.counts}")
    if ran.killed and (summary.failed or summary.truncated):
        raise RunError(f"{summary.counts}{ran.killed}: see {folder.engine_log}")
    _check_kv_cache(config, folder)
    return summary


def _collect(
    config: RunConfig, planned: list[Planned], folder: RunFolder, ran: _Ran, *, as_stock: bool
) -> Summary:
    """Writes what was measured."""
    requests = _read_results(config, folder, as_stock=as_stock)
    results.write_requests(folder.requests, requests)
    drop_later_readings(folder, requests)
    predicted_steps = PredictedSteps.read(folder.steps)
    summary = summarise(planned, requests, predicted_steps, ran.state, ran.serving)
    folder.summary.write_text(summary.model_dump_json(indent=2) + "\n")
    write_report(folder, config, requests, summary)
    write_trace(folder, requests)
    return summary


def planned_of(config: RunConfig) -> list[Planned]:
    """The requests of an experiment and their times. Raises WorkloadError, UnknownModel."""
    tokenizer = model_named(config.model).tokenizer()
    requests = requests_of(config.workload, config.num_requests, config.seed, tokenizer)
    return plan(
        requests,
        config.arrivals,
        rate=config.rate,
        rate_scale=config.rate_scale,
        seed=config.seed,
    )


class _Ran(NamedTuple):
    state: SessionState
    serving: Serving
    failure: str | None
    """Who ended before the time, if anybody did."""
    killed: str
    """Which processes a signal has ended before the session did, as a part of a message."""


def _run(
    config: RunConfig, launch: EngineLaunch, client_command: list[str], folder: RunFolder
) -> _Ran:
    held = {held_outputs.INTERVAL_NS: str(config.metrics_interval_ns)} if config.fast else {}
    with launch.started(folder.engine_log, folder.steps, held) as engine:
        client = engine.spawn(client_command, folder.client_log)
        scraper = engine.spawn(scraper_command(config, launch, folder), folder.scraper_log)
        ends = _Ends(engine, client, scraper, folder)
        serving = _watch(engine, ends, folder)
        killed = engine.killed()
        if ends.has_server:
            if config.clock is Clock.EXACT and ends.failure is None:
                wait_for_last_reading(folder)
            engine.stop()
        state = engine.session.end()
    if state is None:
        raise RunError("the Timekeeper died")
    return _Ran(state, serving, ends.failure, killed)


class _Ends:
    """Who ends first: the server, its client, or who reads its metrics."""

    def __init__(self, engine: RunningEngine, client: int, scraper: int, folder: RunFolder) -> None:
        self.client = client
        self.has_server = True
        self.failure: str | None = None
        self._engine = engine
        self._scraper = scraper
        self._folder = folder
        self._give_up_s = math.inf

    def wait(self) -> bool:
        """For a while. Whether it is over: a client that has lost its server may still tell what
        it has measured.
        """
        try:
            exited = self._engine.wait(_LOOK_S)
        except EngineEnded as error:
            self.has_server = False
            self.failure = str(error)
            if not has_steps(self._folder.steps):
                return True
            self._give_up_s = time.monotonic() + _CLIENT_LIMIT_S
            return False
        if exited is not None and exited.pid == self._scraper and self.failure is None:
            log = self._folder.scraper_log
            self.failure = f"what reads the engine's metrics ended in mid-run: see {log}"
        if exited is None or exited.pid != self.client:
            return time.monotonic() > self._give_up_s
        if exited.exit_code != 0 and self.failure is None:
            log = self._folder.client_log
            self.failure = f"the client failed (exit code {exited.exit_code}): see {log}"
        return True


def _watch(engine: RunningEngine, ends: _Ends, folder: RunFolder) -> Serving:
    """Returns when the client has ended: what was spent from the first step on."""
    meter = HostMeter(engine.session.timekeeper_pid)
    has_begun = False
    while not ends.wait():
        has_begun = has_begun or has_steps(folder.steps)
        if has_begun:
            meter.look()
        else:
            meter.begin()
    names = {
        engine.session.timekeeper_pid: "Timekeeper",
        engine.pid: "server",
        ends.client: "client",
    }
    return Serving(wall_s=meter.wall_s, steps=_steps(folder), processes=meter.costs(names))


def _steps(folder: RunFolder) -> int:
    """How many the workers have logged; each of them has the same ones."""
    return max((_lines(file) for file in folder.steps.iterdir()), default=0)


def _lines(file: Path) -> int:
    return file.read_bytes().count(b"\n")


def _read_results(
    config: RunConfig, folder: RunFolder, *, as_stock: bool
) -> list[results.RequestResult]:
    if as_stock and config.engine_name == "sglang":
        return results.read_sglang_results(folder.client_result, folder.prompts, folder.steps)
    if config.fast:
        return results.read_fast_results(folder.client_result, folder.steps)
    return results.read_vllm_results(folder.client_result)


def _check_kv_cache(config: RunConfig, folder: RunFolder) -> None:
    """Whether the engine has taken the size that it was told."""
    found = kv_tokens(folder.engine_log.read_text(errors="replace"))
    if config.kv_tokens is not None and found != config.kv_tokens:
        raise RunError(
            f"the KV cache was to have {config.kv_tokens} tokens and has {found}: say --block-size "
            "and --max-model-len as the real server had them"
        )

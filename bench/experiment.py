"""One experiment from its description to its folder: start, wait, collect, stop."""

from __future__ import annotations

import sys
from pathlib import Path

import yaml

from warpserve.bench import clients, results
from warpserve.bench.config import RunConfig
from warpserve.bench.engine import EngineLaunch, RunningEngine
from warpserve.bench.environment import describe_environment
from warpserve.bench.host_cost import HostMeter
from warpserve.bench.kv_cache import kv_tokens
from warpserve.bench.models import model_named
from warpserve.bench.report.page import write_report
from warpserve.bench.report.trace import write_trace
from warpserve.bench.run_folder import RunError, RunFolder
from warpserve.bench.summary import Serving, Summary, summarise
from warpserve.bench.workload import Planned, plan, requests_of
from warpserve.timekeeper.state import SessionState

_SCRAPER = Path(__file__).with_name("scrape.py")
_LOOK_S = 0.25  # of host time, between looks at the processes and at the steps


def run_experiment(config: RunConfig, out: Path) -> Summary:
    """Runs it and fills the folder ``out``.

    Raises WarpserveError: before anything has started, where the description asks for what is not
    there; RunError afterwards, with the folder kept.
    """
    planned = planned_of(config)
    as_stock = clients.sends_as_stock(config, planned)
    launch = EngineLaunch(config)
    folder = RunFolder.create(out)
    client = clients.prepare_client(config, planned, launch, folder, as_stock=as_stock)
    folder.config.write_text(yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False))
    describe_environment(folder, launch.bin / "python", [launch.command, client])
    state, serving = _run(config, launch, client, folder)
    requests = _read_results(config, folder)
    results.write_requests(folder.requests, requests)
    summary = summarise(planned, requests, state, serving)
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


def _run(
    config: RunConfig, launch: EngineLaunch, client_command: list[str], folder: RunFolder
) -> tuple[SessionState, Serving]:
    with launch.started(folder.engine_log, folder.steps) as engine:
        client = engine.spawn(client_command, folder.client_log)
        engine.spawn(_scraper(config, launch, folder), folder.path / "scraper.log")
        client_code, serving = _watch(engine, client, folder)
        engine.stop()
        state = engine.session.end()
    if client_code != 0:
        raise RunError(f"the client failed (exit code {client_code}): see {folder.client_log}")
    if state is None:
        raise RunError("the Timekeeper died")
    _check_kv_cache(config, folder)
    return state, serving


def _watch(engine: RunningEngine, client: int, folder: RunFolder) -> tuple[int, Serving]:
    """The client's exit code, and what was spent from the first step to that exit."""
    meter = HostMeter(engine.session.timekeeper_pid)
    has_begun = False
    while (exited := engine.wait(_LOOK_S)) is None or exited.pid != client:
        has_begun = has_begun or any(file.stat().st_size for file in folder.steps.iterdir())
        if has_begun:
            meter.look()
        else:
            meter.begin()
    names = {engine.session.timekeeper_pid: "Timekeeper", engine.pid: "server", client: "client"}
    serving = Serving(wall_s=meter.wall_s, steps=_steps(folder), processes=meter.costs(names))
    return exited.exit_code, serving


def _steps(folder: RunFolder) -> int:
    """How many the workers have logged; each of them has the same ones."""
    return max((_lines(file) for file in folder.steps.iterdir()), default=0)


def _lines(file: Path) -> int:
    return file.read_bytes().count(b"\n")


def _scraper(config: RunConfig, launch: EngineLaunch, folder: RunFolder) -> list[str]:
    return [
        sys.executable,
        str(_SCRAPER),
        f"{launch.url}/metrics",
        str(folder.metrics),
        str(config.metrics_interval_s),
    ]


def _read_results(config: RunConfig, folder: RunFolder) -> list[results.RequestResult]:
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

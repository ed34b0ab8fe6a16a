"""Benchmark clients: the engine's own, as its users start it, and the light one."""

from __future__ import annotations

from pathlib import Path

import warpserve
from warpserve.bench.config import RunConfig
from warpserve.bench.engine import EngineLaunch
from warpserve.bench.run_folder import RunFolder
from warpserve.bench.steps import REQUEST_PREFIX

_FAST_CLIENT = Path(warpserve.__file__).parent / "bench" / "fast" / "client.py"
_TABLE_TITLE = "============ Serving Benchmark Result ============"
_READY_LIMIT_S = 3_600  # of virtual time, in which a server starts up in seconds


def command_of(config: RunConfig, launch: EngineLaunch, folder: RunFolder) -> list[str]:
    """The client that the experiment asks for, over the prompts of the folder."""
    command = (_fast_client if config.fast else _vllm_bench_serve)(config, launch, folder)
    if config.max_concurrency is not None:
        command += ["--max-concurrency", str(config.max_concurrency)]
    return command


def _vllm_bench_serve(config: RunConfig, launch: EngineLaunch, folder: RunFolder) -> list[str]:
    return [
        str(launch.bin / "vllm"), "bench", "serve",
        "--backend", "vllm",
        "--host", "127.0.0.1",
        "--port", str(launch.port),
        "--model", launch.model.reference,
        "--dataset-name", "custom",
        "--dataset-path", str(folder.prompts),
        "--custom-output-len", "-1",
        "--skip-chat-template",
        "--disable-shuffle",
        "--num-prompts", str(config.num_requests),
        "--request-rate", str(config.rate),
        "--seed", str(config.seed),
        "--ignore-eos",
        "--request-id-prefix", REQUEST_PREFIX,
        "--ready-check-timeout-sec", str(_READY_LIMIT_S),
        "--percentile-metrics", "ttft,tpot,itl,e2el",
        "--metric-percentiles", "50,90,99",
        "--disable-tqdm",
        "--save-result",
        "--save-detailed",
        "--result-dir", str(folder.path),
        "--result-filename", folder.client_result.name,
    ]  # fmt: skip


def _fast_client(config: RunConfig, launch: EngineLaunch, folder: RunFolder) -> list[str]:
    return [
        str(launch.bin / "python"), str(_FAST_CLIENT),
        "--url", f"{launch.url}/v1/completions",
        "--model", launch.model.reference,
        "--prompts", str(folder.prompts),
        "--rate", str(config.rate),
        "--seed", str(config.seed),
        "--steps", str(folder.steps),
        "--out", str(folder.client_result),
    ]  # fmt: skip


def result_table(log: str) -> str:
    """Of what ``vllm bench serve`` printed, its table; all of it where there is none."""
    _, title, table = log.partition(_TABLE_TITLE)
    return title + table if title else log

"""The engine's own benchmark clients, as their users start them."""

from __future__ import annotations

from pathlib import Path

from warpserve.bench.config import RunConfig
from warpserve.bench.run_folder import RunFolder

REQUEST_PREFIX = "request-"
"""A request's id in the engine has this and its index in it."""

_TABLE_TITLE = "============ Serving Benchmark Result ============"
_READY_LIMIT_S = 3_600  # of virtual time, in which a server starts up in seconds


def vllm_bench_serve(
    config: RunConfig, *, engine_bin: Path, model: str, port: int, folder: RunFolder
) -> list[str]:
    """``vllm bench serve`` over the prompts of the folder. ``model``: as the server knows it."""
    command = [
        str(engine_bin / "vllm"), "bench", "serve",
        "--backend", "vllm",
        "--host", "127.0.0.1",
        "--port", str(port),
        "--model", model,
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
    if config.max_concurrency is not None:
        command += ["--max-concurrency", str(config.max_concurrency)]
    return command


def result_table(log: str) -> str:
    """Of what ``vllm bench serve`` printed, its table; all of it where there is none."""
    _, title, table = log.partition(_TABLE_TITLE)
    return title + table if title else log

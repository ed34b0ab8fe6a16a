"""Benchmark clients: the engine's own, as its users start it, and ours."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path

import warpserve
from warpserve.bench.config import ConfigError, RunConfig
from warpserve.bench.engine import EngineLaunch
from warpserve.bench.run_folder import RunFolder
from warpserve.bench.steps import REQUEST_PREFIX, sglang_id
from warpserve.bench.workload.arrivals import Arrival, Ramp
from warpserve.bench.workload.plan import Planned
from warpserve.bench.workload.prompts import write_prompts

_OWN_CLIENT = Path(warpserve.__file__).parent / "bench" / "client" / "main.py"
_TABLE_TITLE = "============ Serving Benchmark Result ============"
_READY_LIMIT_S = 3_600  # of virtual time, in which a server starts up in seconds


def sends_as_stock(config: RunConfig, planned: Sequence[Planned]) -> bool:
    """Whether requests are sent as the engine's own client sends them: by itself, or for ``fast``
    of vLLM by ours, at the same instants.

    Raises ConfigError where the stock client is asked for what it can't do.
    """
    if config.engine_name == "sglang":
        name, missing = "sglang.bench_serving", _sglang_lacks(config, planned)
    else:
        name, missing = "vllm bench serve", _stock_lacks(config.arrivals, planned)
    if config.client == "stock" and missing:
        raise ConfigError(f"client: {name} has no {missing}: say own")
    return config.client != "own" and missing is None


def prepare_client(
    config: RunConfig,
    planned: Sequence[Planned],
    launch: EngineLaunch,
    folder: RunFolder,
    *,
    as_stock: bool,
) -> list[str]:
    """The command of the client that the experiment asks for; what it sends is in the folder.

    ``as_stock``: ``sends_as_stock`` of it. Raises WorkloadError.
    """
    tokenizer = launch.model.tokenizer()
    write_prompts(folder.prompts, planned, tokenizer, config.seed, as_text=as_stock)
    if as_stock and config.engine_name == "sglang":
        return _sglang_bench_serving(config, launch, folder)
    if as_stock and not config.fast:
        return _vllm_bench_serve(config, launch, folder)
    return _own_client(config, launch, folder, as_stock=as_stock)


def _stock_lacks(arrival: Arrival, planned: Sequence[Planned]) -> str | None:
    """What of a workload ``vllm bench serve`` has no option for; None: nothing."""
    if arrival.kind in ("trace", "uniform", "normal"):
        return f"{arrival.kind} arrivals"
    if arrival.ramp is not None and not _is_stock_ramp(arrival.ramp):
        return "such ramp (it has whole rates, upwards, from request to request)"
    requests = [entry.request for entry in planned]
    if any(request.session is not None for request in requests):
        return "sessions"
    if any(request.prompt_token_ids or request.output_token_ids for request in requests):
        return "token ids"
    return None


def _sglang_lacks(config: RunConfig, planned: Sequence[Planned]) -> str | None:
    """What of an experiment ``sglang.bench_serving`` has no option for; None: nothing."""
    if config.fast:
        return "way to send without streaming that tells when tokens came"
    if config.arrivals.ramp is not None:
        return "ramp"
    if config.arrivals.burstiness not in (None, 1.0):
        return "burstiness"
    return _stock_lacks(config.arrivals, planned)


def _is_stock_ramp(ramp: Ramp) -> bool:
    rates = (ramp.start, ramp.end)
    is_whole = all(rate == int(rate) for rate in rates)
    return ramp.over_s is None and is_whole and ramp.start <= ramp.end


def _vllm_bench_serve(config: RunConfig, launch: EngineLaunch, folder: RunFolder) -> list[str]:
    return [
        str(launch.python.with_name("vllm")), "bench", "serve",
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
        *_stock_arrivals(config),
        *_stock_sampling(config),
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
        *_concurrency(config),
    ]  # fmt: skip


def _sglang_bench_serving(config: RunConfig, launch: EngineLaunch, folder: RunFolder) -> list[str]:
    """From a data set of chats, whose further fields go into the body of each request: they say
    the prompt that is sent, and the request's id in the engine. What the result file does not
    tell, when each was sent, follows from its step log.
    """
    with folder.prompts.open() as prompts, folder.dataset.open("w") as dataset:
        for index, line in enumerate(prompts):
            chat = _chat_of(index, json.loads(line)) | config.sampling
            dataset.write(json.dumps(chat) + "\n")
    return [
        str(launch.python), "-m", "sglang.bench_serving",
        "--backend", "sglang-oai",
        "--host", "127.0.0.1",
        "--port", str(launch.port),
        "--model", launch.model.reference,
        "--dataset-name", "openai",
        "--dataset-path", str(folder.dataset),
        "--num-prompts", str(config.num_requests),
        "--request-rate", str(config.rate or math.inf),
        "--seed", str(config.seed),
        "--ready-check-timeout-sec", str(_READY_LIMIT_S),
        "--warmup-requests", "0",
        "--disable-tqdm",
        "--output-file", str(folder.client_result),
        "--output-details",
        *_concurrency(config),
    ]  # fmt: skip


def _chat_of(index: int, request: dict[str, object]) -> dict[str, object]:
    """The message is never sent: it makes the row one of that data set."""
    return {
        "messages": [{"role": "user", "content": ""}],
        "max_tokens": request["output_tokens"],
        "prompt": request["prompt"],
        "rid": sglang_id(index),
    }


def _stock_arrivals(config: RunConfig) -> list[str]:
    arrival = config.arrivals
    if arrival.ramp is not None:
        return [
            "--ramp-up-strategy", arrival.ramp.shape,
            "--ramp-up-start-rps", str(int(arrival.ramp.start)),
            "--ramp-up-end-rps", str(int(arrival.ramp.end)),
        ]  # fmt: skip
    rate = ["--request-rate", str(config.rate or "inf")]
    if arrival.burstiness in (None, 1.0):
        return rate
    return [*rate, "--burstiness", str(arrival.burstiness)]


def _stock_sampling(config: RunConfig) -> list[str]:
    return [
        text
        for name, value in config.sampling.items()
        for text in (f"--{name.replace('_', '-')}", str(value))
    ]


def _own_client(
    config: RunConfig, launch: EngineLaunch, folder: RunFolder, *, as_stock: bool
) -> list[str]:
    return [
        str(launch.python), str(_OWN_CLIENT),
        "--url", launch.url,
        "--engine", config.engine_name,
        "--model", launch.model.reference,
        "--requests", str(folder.prompts),
        "--out", str(folder.client_result),
        *(["--steps", str(folder.steps)] if config.fast else []),
        *(["--as-stock"] if as_stock else []),
        *(["--sampling", json.dumps(config.sampling)] if config.sampling else []),
        *_concurrency(config),
    ]  # fmt: skip


def _concurrency(config: RunConfig) -> list[str]:
    return [] if config.concurrency is None else ["--max-concurrency", str(config.concurrency)]


def result_table(log: str) -> str:
    """Of what the engine's own client printed, its table; all of it where there is none."""
    _, title, table = log.partition(_TABLE_TITLE)
    return title + table if title else log

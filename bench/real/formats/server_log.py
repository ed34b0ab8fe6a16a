"""The log of a vLLM or SGLang server: what it ran as, and once in a while how busy it was.

What is read are the lines that vLLM 0.10 to 0.24 and SGLang 0.4 to 0.5 print as they start up, and
vLLM's statistics. Their wording is no interface: what a version words otherwise stays unknown.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from warpserve.bench.kv_cache import kv_tokens
from warpserve.bench.real.files import ImportFailed, content_of, source_of
from warpserve.bench.real.notation import arguments_of
from warpserve.bench.real.schema import Deployment, Run, Sample, Workload
from warpserve.bench.real.sglang_graphs import graph_sizes

NAME = "server-log"
WHAT = "the log of a vLLM or SGLang server"

_VLLM = re.compile(r"Initializing a V1 LLM engine \(v(\S+)\)|vLLM API server version (\S+)")
_VLLM_CONFIG = re.compile(r"Initializing a V1 LLM engine .* with config: (.*)")
_VLLM_ARGUMENTS = re.compile(r"non-default args: (\{.*\})")
_VLLM_GRAPH_SIZES = re.compile(r"'cudagraph_capture_sizes': \[([\d, ]*)\]")
_VLLM_BATCHED_TOKENS = re.compile(r"max_num_batched_tokens=(\d+)")
_VLLM_BLOCKS = re.compile(r"# GPU blocks: (\d+)|num_gpu_blocks is: (\d+)")
_VLLM_SAMPLE = re.compile(
    r"(\d\d-\d\d \d\d:\d\d:\d\d) .*Engine (\d+): Avg prompt throughput: ([\d.]+) tokens/s, "
    r"Avg generation throughput: ([\d.]+) tokens/s, Running: (\d+) reqs, Waiting: (\d+) reqs, "
    r"(?:.*?)GPU KV cache usage: ([\d.]+)%"
)
_SGLANG_ARGUMENTS = re.compile(r"server_args=(ServerArgs\(.*\)|\{.*\})")
_SGLANG_POOL = re.compile(
    r"max_total_num_tokens=(\d+), .*max_running_requests=(\d+), context_len=(\d+)"
)
_SGLANG_GRAPH_SIZES = re.compile(
    r"Capture cuda graph bs \[([\d, ]*)\]"
    r"|Capture target (?:decode|verify) CUDA graph .*?\bbs=\[([\d, ]*)\]"
)
_WITHOUT_PEERS = "lacks GPU P2P capability or P2P test failed"
"""Both engines' words, where tensor parallelism has to do without their own all-reduce. Where they
say nothing, peers may not have been looked for."""


class _Log(NamedTuple):
    text: str
    path: Path

    def first(self, pattern: re.Pattern[str]) -> str | None:
        """Of its first match, the group that took part."""
        match = pattern.search(self.text)
        return None if match is None else next((group for group in match.groups() if group), None)

    @property
    def peers(self) -> bool | None:
        return False if _WITHOUT_PEERS in self.text else None

    def number(self, pattern: re.Pattern[str]) -> int | None:
        found = self.first(pattern)
        return None if found is None else int(found)


def recognises(path: Path) -> bool:
    return not path.is_dir() and path.name.removesuffix(".gz").endswith((".log", ".txt"))


def read(path: Path) -> list[Run]:
    """One run without requests. Raises ImportFailed where the log names no engine."""
    log = _Log(content_of(path).decode(errors="replace"), path)
    if _VLLM.search(log.text):
        version = log.first(_VLLM)
        samples = _vllm_samples(log.text)
        deployment, warnings = _vllm(log, version)
    elif _SGLANG_ARGUMENTS.search(log.text):
        version, samples = None, ()
        deployment, warnings = _sglang(log)
    else:
        raise ImportFailed(f"{path} has none of the lines with which vLLM and SGLang begin")
    return [
        Run(
            sources=(source_of(path, NAME, version),),
            deployment=deployment,
            workload=Workload(),
            series=samples,
            warnings=warnings,
        )
    ]


def _vllm(log: _Log, version: str | None) -> tuple[Deployment, dict[str, int]]:
    said, warnings = _arguments(log.first(_VLLM_ARGUMENTS))
    config = log.first(_VLLM_CONFIG) or ""
    sizes = log.first(_VLLM_GRAPH_SIZES)
    tokens, block_tokens = kv_tokens(log.text), said.get("block_size")
    blocks = log.number(_VLLM_BLOCKS) or said.get("num_gpu_blocks_override")
    if blocks is None and tokens and block_tokens:
        blocks = tokens // block_tokens
    is_eager = _of_config(config, "enforce_eager", _truth)
    deployment = Deployment(
        engine="vllm",
        engine_version=version,
        model=said.get("model") or said.get("model_tag"),
        peers=log.peers,
        tensor_parallel=_of_config(config, "tensor_parallel_size", int),
        pipeline_parallel=_of_config(config, "pipeline_parallel_size", int),
        data_parallel=_of_config(config, "data_parallel_size", int),
        expert_parallel=said.get("enable_expert_parallel"),
        dtype=(_of_config(config, "dtype", str) or "").removeprefix("torch.") or None,
        quantization=_of_config(config, "quantization", str, none="none"),
        kv_cache_dtype=_of_config(config, "kv_cache_dtype", str),
        max_model_len=_of_config(config, "max_seq_len", int),
        max_num_seqs=said.get("max_num_seqs"),
        max_num_batched_tokens=log.number(_VLLM_BATCHED_TOKENS)
        or said.get("max_num_batched_tokens"),
        kv_blocks=blocks,
        kv_block_tokens=block_tokens,
        kv_tokens=tokens,
        prefix_caching=_of_config(config, "enable_prefix_caching", _truth),
        cuda_graph_sizes=() if is_eager else _sizes(sizes),
        memory_utilization=said.get("gpu_memory_utilization"),
        arguments=said,
    )
    return deployment, warnings


def _sglang(log: _Log) -> tuple[Deployment, dict[str, int]]:
    said, warnings = _arguments(log.first(_SGLANG_ARGUMENTS))
    pool = _SGLANG_POOL.search(log.text)
    tokens, page_tokens = int(pool[1]) if pool else None, said.get("page_size")
    sizes = _sizes(log.first(_SGLANG_GRAPH_SIZES))
    chunk_tokens = said.get("chunked_prefill_size")
    radix = said.get("disable_radix_cache")
    deployment = Deployment(
        engine="sglang",
        model=said.get("model_path"),
        peers=log.peers,
        tensor_parallel=said.get("tp_size"),
        pipeline_parallel=said.get("pp_size"),
        data_parallel=said.get("dp_size"),
        expert_parallel=None if "ep_size" not in said else said["ep_size"] > 1,
        dtype=said.get("dtype"),
        quantization=said.get("quantization"),
        kv_cache_dtype=said.get("kv_cache_dtype"),
        max_model_len=int(pool[3]) if pool else said.get("context_length"),
        max_num_seqs=int(pool[2]) if pool else said.get("max_running_requests"),
        # -1: prompts are not cut.
        max_num_batched_tokens=None if chunk_tokens == -1 else chunk_tokens,
        kv_blocks=tokens // page_tokens if tokens and page_tokens else None,
        kv_block_tokens=page_tokens,
        kv_tokens=tokens,
        prefix_caching=None if radix is None else not radix,
        cuda_graph_sizes=graph_sizes(said, "decode") if sizes is None else sizes,
        memory_utilization=said.get("mem_fraction_static"),
        arguments=said,
    )
    return deployment, warnings


def _arguments(text: str | None) -> tuple[dict[str, Any], dict[str, int]]:
    if text is None:
        return {}, {"the log does not say with which arguments the server was started": 1}
    return arguments_of(text)


def _of_config(config: str, name: str, read: Callable[[str], Any], none: str | None = None) -> Any:
    """From ``name=value, …``; None where it is not there, and ``none`` where it is None."""
    match = re.search(rf"(?:^|[ ,]){name}=([^,]*)", config)
    if match is None:
        return None
    return none if match[1] == "None" else read(match[1])


def _truth(text: str) -> bool:
    return text == "True"


def _sizes(text: str | None) -> tuple[int, ...] | None:
    return None if text is None else tuple(sorted(int(size) for size in text.split(",") if size))


def _vllm_samples(text: str) -> tuple[Sample, ...]:
    """Of all engines together, from the first line with statistics on; a log names no year."""
    engines: dict[str, dict[str, tuple[float, ...]]] = {}
    for match in _VLLM_SAMPLE.finditer(text):
        values = tuple(float(group) for group in match.groups()[2:])
        engines.setdefault(match[1], {})[match[2]] = values
    instants = {stamp: _seconds(stamp) for stamp in engines}
    origin_s = min(instants.values(), default=0.0)
    samples = []
    for stamp, by_engine in engines.items():
        prompt, output, running, waiting, usage = map(sum, zip(*by_engine.values(), strict=True))
        samples.append(
            Sample(
                time_s=instants[stamp] - origin_s,
                running=running,
                waiting=waiting,
                kv_usage=usage / 100 / len(by_engine),
                prompt_tokens_per_s=prompt,
                output_tokens_per_s=output,
            )
        )
    return tuple(samples)


def _seconds(stamp: str) -> float:
    """Since the beginning of a leap year, so that each date is one."""
    moment = datetime.datetime.strptime(f"2000-{stamp}", "%Y-%m-%d %H:%M:%S")
    return (moment - datetime.datetime(2000, 1, 1)).total_seconds()

"""The flags with which an engine is started as a real one was."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from warpserve.bench.real.schema import Deployment
from warpserve.bench.real.sglang_graphs import PHASES, has_no_graphs

_OWN = frozenset(
    (
        *("model", "model_tag", "served_model_name", "tokenizer", "download_dir", "load_format"),
        *("host", "port", "uds", "api_key", "root_path", "ssl_keyfile", "ssl_certfile", "seed"),
        *("disable_log_requests", "disable_log_stats", "enable_log_requests", "uvicorn_log_level"),
        *("hf_token", "num_gpu_blocks_override", "block_size"),
        *("allowed_origins", "allowed_methods", "allowed_headers"),
    )
)
"""Arguments of a real vLLM that are its own place's, or that the twin says itself."""

_VLLM = {
    "tensor_parallel": "tensor_parallel_size",
    "pipeline_parallel": "pipeline_parallel_size",
    "data_parallel": "data_parallel_size",
    "expert_parallel": "enable_expert_parallel",
    "dtype": "dtype",
    "quantization": "quantization",
    "kv_cache_dtype": "kv_cache_dtype",
    "max_model_len": "max_model_len",
    "max_num_seqs": "max_num_seqs",
    "max_num_batched_tokens": "max_num_batched_tokens",
    "prefix_caching": "enable_prefix_caching",
    "memory_utilization": "gpu_memory_utilization",
    "kv_block_tokens": "block_size",
}
"""vLLM's argument for a field of a deployment."""

_SGLANG = {
    "tensor_parallel": "tp_size",
    "pipeline_parallel": "pp_size",
    "data_parallel": "dp_size",
    "dtype": "dtype",
    "quantization": "quantization",
    "kv_cache_dtype": "kv_cache_dtype",
    "max_model_len": "context_length",
    "max_num_seqs": "max_running_requests",
    "max_num_batched_tokens": "chunked_prefill_size",
    "memory_utilization": "mem_fraction_static",
    "kv_block_tokens": "page_size",
}
"""The same of SGLang's."""
_OF_SGLANG_S_SCHEDULER = (
    *("schedule_policy", "schedule_conservativeness", "max_prefill_tokens", "prefill_max_requests"),
    *("enable_mixed_chunk", "enable_priority_scheduling", "stream_interval"),
    *("disable_radix_cache", "disable_overlap_schedule"),
    *("disable_cuda_graph", "disable_cuda_graph_padding"),
    *("disable_decode_cuda_graph", "cuda_graph_backend_decode"),
    *("cuda_graph_bs_decode", "cuda_graph_max_bs_decode"),
    *("disable_prefill_cuda_graph", "cuda_graph_backend_prefill"),
    *("cuda_graph_bs_prefill", "cuda_graph_max_bs_prefill", "cuda_graph_max_seq_len_prefill"),
    *("cuda_graph_prefill_max_context", "cuda_graph_tc_compiler"),
    *("ep_size", "enable_dp_attention", "moe_a2a_backend", "load_balance_method"),
    *("enable_hierarchical_cache", "hicache_ratio", "hicache_size", "hicache_write_policy"),
    *("hicache_storage_backend", "hicache_storage_prefetch_policy"),
    *("hicache_storage_backend_extra_config",),
    *("speculative_algorithm", "speculative_num_steps", "speculative_eagle_topk"),
    *("speculative_num_draft_tokens", "speculative_draft_model_path"),
)
"""Arguments that decide what a step of SGLang computes. It logs all that it has, some hundreds with
what it has made of them for the GPU, so that they are no flags to start another with."""

_ALONE = {
    "tensor_parallel_size": 1,
    "pipeline_parallel_size": 1,
    "data_parallel_size": 1,
    "enable_expert_parallel": False,
    "tp_size": 1,
    "pp_size": 1,
    "dp_size": 1,
    "ep_size": 1,
    "quantization": "none",
}
"""Not said: it is what the engine does without a word."""


_OF_SIZES = (
    *("cudagraph_capture_sizes", "max_cudagraph_capture_size"),
    *("cuda_graph_bs_decode", "cuda_graph_max_bs_decode"),
)
"""What graphs are captured for, as it was said: what came of it goes before, where it is known, and
vLLM takes no largest size beside it that is not in it."""


def engine_flags(deployment: Deployment) -> list[str]:
    """From the server's own arguments, and what else of it is known."""
    return _sglang(deployment) if deployment.engine == "sglang" else _vllm(deployment)


def _vllm(deployment: Deployment) -> list[str]:
    arguments = {k: v for k, v in deployment.arguments.items() if k not in _OWN}
    for field, name in _VLLM.items():
        if arguments.get(name) is None:
            arguments[name] = getattr(deployment, field)
    if deployment.cuda_graph_sizes:
        arguments = _without_sizes(arguments)
        arguments["cudagraph_capture_sizes"] = deployment.cuda_graph_sizes
    elif deployment.cuda_graph_sizes == ():
        arguments["enforce_eager"] = True
    return _flags(arguments)


def _sglang(deployment: Deployment) -> list[str]:
    """Of what was said to the server as it was said, else what is known of it."""
    said = deployment.arguments
    arguments = {
        name: said.get(name, getattr(deployment, field)) for field, name in _SGLANG.items()
    }
    arguments |= {name: said[name] for name in _OF_SGLANG_S_SCHEDULER if name in said}
    if deployment.prefix_caching is False:
        arguments["disable_radix_cache"] = True
    # However it came to that: by a flag, by --cuda-graph-config, or by the engine's own rules.
    arguments |= {
        f"disable_{phase}_cuda_graph": True for phase in PHASES if has_no_graphs(said, phase)
    }
    if deployment.cuda_graph_sizes:
        arguments = _without_sizes(arguments)
        arguments["cuda_graph_bs_decode"] = deployment.cuda_graph_sizes
    elif deployment.cuda_graph_sizes == () and not arguments.get("disable_decode_cuda_graph"):
        arguments["disable_cuda_graph"] = True
    # What is off by a flag has none to be on.
    return _flags({name: value for name, value in arguments.items() if value is not False})


def _without_sizes(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Also not in vLLM's ``compilation_config``, beside which they may not be said."""
    kept = {name: value for name, value in arguments.items() if name not in _OF_SIZES}
    if isinstance(compiled := kept.get("compilation_config"), Mapping):
        kept["compilation_config"] = {k: v for k, v in compiled.items() if k not in _OF_SIZES}
    return kept


def _flags(arguments: Mapping[str, Any]) -> list[str]:
    return [
        flag
        for name, value in arguments.items()
        if value is not None and (name not in _ALONE or value != _ALONE[name])
        for flag in _flag(name, value)
    ]


def _flag(name: str, value: Any) -> list[str]:
    dashed = name.replace("_", "-")
    if isinstance(value, bool):
        return [f"--{dashed}" if value else f"--no-{dashed}"]
    if isinstance(value, list | tuple):
        return [f"--{dashed}", *map(_text, value)] if value else []
    return [f"--{dashed}", _text(value)]


def _text(value: Any) -> str:
    return json.dumps(value) if isinstance(value, Mapping) else str(value)

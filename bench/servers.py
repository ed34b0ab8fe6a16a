"""The engines' servers, as their users start them."""

from __future__ import annotations

from pathlib import Path

from warpserve.bench.config import CONFIG_FLAG, EngineConfig

_PARALLEL = (
    "--tensor-parallel-size", "-tp",
    "--pipeline-parallel-size", "-pp",
    "--data-parallel-size", "-dp",
    CONFIG_FLAG,
)  # fmt: skip
_SGLANG_PARALLEL = (
    "--tensor-parallel-size", "--tp-size", "--tp",
    "--pipeline-parallel-size", "--pp-size",
    "--data-parallel-size", "--dp-size", "--dp",
    CONFIG_FLAG,
)  # fmt: skip
"""Flags that say, or as a file may say, how GPUs are divided."""
_VLLM_BLOCK_TOKENS = 16  # its default for most models on CUDA


def server_command(
    config: EngineConfig, *, engine_bin: Path, model: str, port: int, gpus: int
) -> list[str]:
    """Of the engine that the configuration names."""
    make = _sglang_server if config.engine_name == "sglang" else vllm_serve
    return make(config, engine_bin=engine_bin, model=model, port=port, gpus=gpus)


def _sglang_server(
    config: EngineConfig, *, engine_bin: Path, model: str, port: int, gpus: int
) -> list[str]:
    """``sglang.launch_server``, over all ``gpus`` unless the flags say how to divide them."""
    flags = list(config.engine_flags)
    if gpus > 1 and config.flag(*_SGLANG_PARALLEL) is None:
        flags += ["--tensor-parallel-size", str(gpus)]
    if config.kv_tokens is not None:
        flags += ["--max-total-tokens", str(config.kv_tokens)]
    return [
        str(engine_bin / "python"), "-m", "sglang.launch_server",
        "--model-path", model,
        "--load-format", "dummy",
        "--host", "127.0.0.1",
        "--port", str(port),
        "--random-seed", str(config.seed),
        "--enable-metrics",
        *flags,
    ]  # fmt: skip


def vllm_serve(
    config: EngineConfig, *, engine_bin: Path, model: str, port: int, gpus: int
) -> list[str]:
    """``vllm serve``, over all ``gpus`` unless the flags say how to divide them."""
    flags = list(config.engine_flags)
    if gpus > 1 and config.flag(*_PARALLEL) is None:
        flags += ["--tensor-parallel-size", str(gpus)]
    if config.kv_tokens is not None:
        block_tokens = int(config.flag("--block-size") or _VLLM_BLOCK_TOKENS)
        flags += ["--num-gpu-blocks-override", str(config.kv_tokens // block_tokens)]
    return [
        str(engine_bin / "vllm"), "serve", model,
        "--load-format", "dummy",
        "--host", "127.0.0.1",
        "--port", str(port),
        "--seed", str(config.seed),
        *flags,
    ]  # fmt: skip

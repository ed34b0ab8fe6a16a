"""The engines' servers, as their users start them."""

from __future__ import annotations

from pathlib import Path

from warpserve.bench.config import CONFIG_FLAG, ConfigError, EngineConfig

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
_SGLANG_PAGE_TOKENS = 1  # likewise


def server_command(
    config: EngineConfig, *, python: Path, model: str, port: int, gpus: int
) -> list[str]:
    """Of the engine that the configuration names, in the environment of ``python``.

    Raises ConfigError where its KV cache can't have as many tokens as it is to have.
    """
    make = _sglang_server if config.engine_name == "sglang" else vllm_serve
    return make(config, python=python, model=model, port=port, gpus=gpus)


def _sglang_server(
    config: EngineConfig, *, python: Path, model: str, port: int, gpus: int
) -> list[str]:
    """``sglang.launch_server``, over all ``gpus`` unless the flags say how to divide them."""
    flags = list(config.engine_flags)
    if gpus > 1 and config.flag(*_SGLANG_PARALLEL) is None:
        flags += ["--tensor-parallel-size", str(gpus)]
    if config.kv_tokens is not None:
        _kv_blocks(config, config.kv_tokens, "--page-size", _SGLANG_PAGE_TOKENS)
        flags += ["--max-total-tokens", str(config.kv_tokens)]
    return [
        str(python), "-m", "sglang.launch_server",
        "--model-path", model,
        "--load-format", "dummy",
        "--host", "127.0.0.1",
        "--port", str(port),
        "--random-seed", str(config.seed),
        "--enable-metrics",
        *flags,
    ]  # fmt: skip


def vllm_serve(
    config: EngineConfig, *, python: Path, model: str, port: int, gpus: int
) -> list[str]:
    """``vllm serve``, over all ``gpus`` unless the flags say how to divide them."""
    flags = list(config.engine_flags)
    if gpus > 1 and config.flag(*_PARALLEL) is None:
        flags += ["--tensor-parallel-size", str(gpus)]
    if config.kv_tokens is not None:
        blocks = _kv_blocks(config, config.kv_tokens, "--block-size", _VLLM_BLOCK_TOKENS)
        flags += ["--num-gpu-blocks-override", str(blocks)]
    return [
        str(python.with_name("vllm")), "serve", model,
        "--load-format", "dummy",
        "--host", "127.0.0.1",
        "--port", str(port),
        "--seed", str(config.seed),
        *flags,
    ]  # fmt: skip


def _kv_blocks(config: EngineConfig, kv_tokens: int, size_flag: str, default_tokens: int) -> int:
    """How many make ``kv_tokens``. Raises ConfigError where no whole number of them does."""
    text = config.flag(size_flag) or str(default_tokens)
    block_tokens = int(text) if text.isascii() and text.isdecimal() else 0
    if block_tokens == 0:
        raise ConfigError(f"kv_tokens: {size_flag} {text} is no number of tokens to divide it by")
    blocks, left_tokens = divmod(kv_tokens, block_tokens)
    if left_tokens:
        raise ConfigError(
            f"kv_tokens: {kv_tokens} is no multiple of {block_tokens}, the tokens of a block: say "
            f"{size_flag} as the real server had it"
        )
    return blocks

"""The engines' servers, as their users start them."""

from __future__ import annotations

from pathlib import Path

from warpserve.bench.config import EngineConfig

_PARALLEL = (
    "--tensor-parallel-size", "-tp",
    "--pipeline-parallel-size", "-pp",
    "--data-parallel-size", "-dp",
)  # fmt: skip
_VLLM_BLOCK_TOKENS = 16  # its default for most models on CUDA


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

"""The engines' servers, as their users start them."""

from __future__ import annotations

from pathlib import Path

from warpserve.bench.config import RunConfig

_TENSOR_PARALLEL = ("--tensor-parallel-size", "-tp")


def vllm_serve(
    config: RunConfig, *, engine_bin: Path, model: str, port: int, gpus: int
) -> list[str]:
    """``vllm serve``, over all ``gpus`` unless the flags say otherwise."""
    flags = list(config.engine_flags)
    if gpus > 1 and not any(flag.split("=")[0] in _TENSOR_PARALLEL for flag in flags):
        flags += ["--tensor-parallel-size", str(gpus)]
    return [
        str(engine_bin / "vllm"), "serve", model,
        "--load-format", "dummy",
        "--host", "127.0.0.1",
        "--port", str(port),
        "--seed", str(config.seed),
        *flags,
    ]  # fmt: skip

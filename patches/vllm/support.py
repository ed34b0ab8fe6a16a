"""What the patches of vLLM cannot stand in for yet: refused at start, each with the way out."""

from __future__ import annotations

from typing import Any


def require_supported(config: Any) -> None:
    """``config``: a VllmConfig. Raises NotImplementedError, naming all that is in the way."""
    found = [message for is_used, message in _CHECKS if is_used(config)]
    if found:
        raise NotImplementedError("warpserve cannot run vLLM with " + "; nor with ".join(found))


_CHECKS = (
    (lambda c: c.speculative_config is not None, "speculative decoding (--speculative-config)"),
    (lambda c: c.parallel_config.pipeline_parallel_size > 1, "pipeline parallelism"),
    (
        lambda c: c.parallel_config.data_parallel_size > 1 and c.model_config.is_moe,
        "data parallelism of a mixture of experts",
    ),
    (lambda c: c.kv_transfer_config is not None, "KV connectors (--kv-transfer-config)"),
    (lambda c: c.model_config.runner_type == "pooling", "pooling models"),
    (lambda c: c.model_config.is_encoder_decoder, "encoder-decoder models"),
)

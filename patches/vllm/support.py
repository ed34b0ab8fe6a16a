"""What the patches of vLLM cannot stand in for yet: refused at start, each with the way out."""

from __future__ import annotations

from typing import Any

_CONNECTORS = ("OffloadingConnector", "NixlConnector")
"""Those whose copies are CUDA's, between this host's memory and its GPUs, or the stand-in's for
NIXL.
"""


def require_supported(config: Any) -> None:
    """``config``: a VllmConfig. Raises NotImplementedError, naming all that is in the way."""
    found = [message for is_used, message in REFUSALS if is_used(config)]
    if found:
        raise NotImplementedError("warpserve cannot run vLLM with " + "; nor with ".join(found))


def _is_lock_step(config: Any) -> bool:
    return bool(config.parallel_config.data_parallel_size > 1 and config.model_config.is_moe)


def _said(config: Any, part: str, name: str) -> Any:
    """A field of a part of a VllmConfig; None where this version, or this server, has none."""
    return getattr(getattr(config, part, None), name, None)


REFUSALS = (
    (
        lambda c: _is_lock_step(c) and c.parallel_config.pipeline_parallel_size > 1,
        "both data and pipeline parallelism of a mixture of experts",
    ),
    (
        lambda c: _is_lock_step(c) and c.kv_transfer_config is not None,
        "data parallelism of a mixture of experts and a KV connector",
    ),
    (
        lambda c: (
            c.kv_transfer_config is not None
            and c.kv_transfer_config.kv_connector not in _CONNECTORS
        ),
        f"KV connectors (--kv-transfer-config) other than {', '.join(_CONNECTORS)}, as their "
        "transfers would take no virtual time",
    ),
    (
        lambda c: c.speculative_config is not None and c.parallel_config.pipeline_parallel_size > 1,
        "both speculative decoding and pipeline parallelism",
    ),
    (
        lambda c: (
            c.model_config.runner_type == "pooling" and c.parallel_config.pipeline_parallel_size > 1
        ),
        "a pooling model in pipeline stages",
    ),
    (lambda c: c.model_config.is_encoder_decoder, "encoder-decoder models"),
    (
        lambda c: c.model_config.enable_prompt_embeds,
        "prompts as embeddings (--enable-prompt-embeds)",
    ),
    (
        lambda c: any(
            (_said(c, "parallel_config", f"{phase}_context_parallel_size") or 1) > 1
            for phase in ("prefill", "decode")
        ),
        "context parallelism (--prefill-context-parallel-size, --decode-context-parallel-size)",
    ),
    (
        lambda c: bool(_said(c, "parallel_config", "enable_dbo")),
        "two batches that overlap (--enable-dbo)",
    ),
    (
        lambda c: bool(_said(c, "speculative_config", "enable_adaptive_verification")),
        "drafts that the runner itself leaves out (enable_adaptive_verification)",
    ),
    (
        lambda c: bool(_said(c, "speculative_config", "num_speculative_tokens_per_batch_size")),
        "another number of drafts by batch size (num_speculative_tokens_per_batch_size)",
    ),
    (
        lambda c: getattr(c, "ec_transfer_config", None) is not None,
        "encoders of their own (--ec-transfer-config)",
    ),
)

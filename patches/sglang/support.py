"""What the patches of SGLang cannot stand in for yet: refused at start, each with the way out."""

from __future__ import annotations

from typing import Any


def require_supported(arguments: Any, model: Any) -> None:
    """``arguments``: ServerArgs; ``model``: a ModelConfig.

    Raises NotImplementedError, naming all that is in the way.
    """
    found = [message for is_used, message in REFUSALS if is_used(arguments, model)]
    if found:
        raise NotImplementedError("warpserve cannot run SGLang with " + "; nor with ".join(found))


REFUSALS = (
    (
        lambda a, _: a.speculative_algorithm is not None,
        "speculative decoding (--speculative-algorithm)",
    ),
    (lambda a, _: bool(a.enable_pdmux), "multiplexed prefill and decode (--enable-pdmux)"),
    (
        lambda a, _: bool(a.enable_two_batch_overlap),
        "two batches that overlap (--enable-two-batch-overlap)",
    ),
    (lambda a, _: getattr(a, "dllm_algorithm", None) is not None, "diffusion models"),
    (lambda a, _: bool(getattr(a, "enable_hisparse", False)), "HiSparse (--enable-hisparse)"),
    (lambda _, m: m.is_encoder_decoder, "encoder-decoder models"),
)

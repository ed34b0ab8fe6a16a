"""What the patches of SGLang cannot stand in for yet: refused at start, each with the way out."""

from __future__ import annotations

from typing import Any

from warpserve.patches.sglang.speculation import ALGORITHMS

STORAGE_TIERS = ("file", "sim")
"""Of HiCache."""

EXPERT_DISPATCHES = ("none", "deepep")
"""Of --moe-a2a-backend."""

TRANSFER_BACKENDS = ("mooncake", "nixl")
"""Of prefill-decode disaggregation."""


def require_supported(arguments: Any, model: Any) -> None:
    """``arguments``: ServerArgs; ``model``: a ModelConfig.

    Raises NotImplementedError, naming all that is in the way.
    """
    found = [message for is_used, message in REFUSALS if is_used(arguments, model)]
    if found:
        raise NotImplementedError("warpserve cannot run SGLang with " + "; nor with ".join(found))


def refuse_beams(parameters: Any, _model: object) -> None:
    """``parameters``: SamplingParams. Raises ValueError for beam search: beams are chosen by
    logits, which nobody computes.
    """
    if (getattr(parameters, "beam_width", None) or 1) > 1:
        raise ValueError("warpserve cannot run beam search: leave beam_width out")


def _has_data_parallel_attention(arguments: Any) -> bool:
    return bool(arguments.enable_dp_attention) or (getattr(arguments, "attn_dp_size", 1) or 1) > 1


def _is_disaggregated(arguments: Any) -> bool:
    return getattr(arguments, "disaggregation_mode", "null") != "null"


def _has_pools_of_several_kinds(arguments: Any, model: Any) -> bool:
    return bool(
        getattr(arguments, "enable_unified_memory", False)
        or getattr(model, "is_hybrid_swa", False)
        or getattr(model.hf_text_config, "layer_types", None)
        or getattr(model.hf_text_config, "hybrid_override_pattern", None)
    )


def _has_host_tier(arguments: Any) -> bool:
    return bool(getattr(arguments, "enable_hierarchical_cache", False))


REFUSALS = (
    (
        lambda a, _: a.speculative_algorithm not in (None, *ALGORITHMS),
        f"a --speculative-algorithm other than {', '.join(ALGORITHMS)}",
    ),
    (
        lambda a, _: a.speculative_algorithm is not None and a.pp_size > 1,
        "both speculative decoding and pipeline parallelism",
    ),
    (
        lambda a, _: a.speculative_algorithm is not None and _has_data_parallel_attention(a),
        "both speculative decoding and attention in data-parallel ranks",
    ),
    (
        lambda a, _: bool(getattr(a, "enable_multi_layer_eagle", False)),
        "drafts of several layers (--enable-multi-layer-eagle)",
    ),
    (lambda a, _: bool(a.enable_pdmux), "multiplexed prefill and decode (--enable-pdmux)"),
    (
        lambda a, _: bool(a.enable_two_batch_overlap),
        "two batches that overlap (--enable-two-batch-overlap)",
    ),
    (
        lambda a, _: a.moe_a2a_backend not in EXPERT_DISPATCHES,
        f"a --moe-a2a-backend other than {', '.join(EXPERT_DISPATCHES)}",
    ),
    (lambda a, _: getattr(a, "dllm_algorithm", None) is not None, "diffusion models"),
    (lambda a, _: bool(getattr(a, "enable_hisparse", False)), "HiSparse (--enable-hisparse)"),
    (lambda _, m: m.is_encoder_decoder, "encoder-decoder models"),
    (
        lambda a, _: _has_host_tier(a) and a.hicache_storage_backend not in (None, *STORAGE_TIERS),
        f"a --hicache-storage-backend other than {', '.join(STORAGE_TIERS)}",
    ),
    (
        lambda a, m: _has_host_tier(a) and _has_pools_of_several_kinds(a, m),
        "both HiCache and pools of several kinds (sliding windows, Mamba, --enable-unified-memory)",
    ),
    (
        lambda a, _: _has_host_tier(a) and a.pp_size > 1,
        "both HiCache and pipeline parallelism",
    ),
    (
        lambda a, _: (
            _is_disaggregated(a) and a.disaggregation_transfer_backend not in TRANSFER_BACKENDS
        ),
        f"a --disaggregation-transfer-backend other than {', '.join(TRANSFER_BACKENDS)}",
    ),
    (
        lambda a, _: _is_disaggregated(a) and a.pp_size > 1,
        "both prefill-decode disaggregation and pipeline parallelism",
    ),
    (
        lambda a, _: (
            (_has_host_tier(a) or _is_disaggregated(a)) and _has_data_parallel_attention(a)
        ),
        "attention in data-parallel ranks together with HiCache or prefill-decode disaggregation",
    ),
    (
        lambda a, _: _is_disaggregated(a) and a.speculative_algorithm is not None,
        "both prefill-decode disaggregation and speculative decoding",
    ),
)

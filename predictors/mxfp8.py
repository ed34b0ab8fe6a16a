"""Experts with weights in MXFP4 whose inputs are turned into MXFP8, on large Blackwells.

SGLang takes such kernels by itself, vLLM with VLLM_USE_FLASHINFER_MOE_MXFP4_MXFP8=1 (0.19) or a
backend of that name (0.24 knows it, but its command line does not). vLLM's own choice multiplies in
bf16, as does SGLang's with --flashinfer-mxfp4-moe-precision bf16. They are TRT-LLM's kernels under
both: in aiconfigurator-core 0.12.0 the times of gpt-oss's experts in bf16 are the same within some
per cent. Only SGLang's tables have them in MXFP8, too: two thirds of the time with 64 tokens, a
third with 8,192.
"""

from __future__ import annotations

from warpserve.predictors.deployment import FP8_ACTIVATIONS, Deployment

_LARGE_BLACKWELL = "10."
_OWN_CHOICE_OF = "sglang"


def multiplies_in_fp8(deployment: Deployment) -> bool:
    """Whether a deployment's experts run in such kernels."""
    is_own_choice = deployment.expert_kernels is None and deployment.engine == _OWN_CHOICE_OF
    return (
        (is_own_choice or deployment.expert_kernels == FP8_ACTIVATIONS)
        and deployment.hardware.compute_capability.startswith(_LARGE_BLACKWELL)
        and deployment.model_weights.experts.name == "mxfp4"
    )

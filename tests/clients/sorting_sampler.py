"""`--worker-extension-cls sorting_sampler.SortingSampler`: vLLM samples as it did until 0.15.

It masks the logits by sorting them in torch, for which vLLM's own function is still there, and not
in the Triton kernel that has taken its place (pull request 33538 of vLLM, February 2026).
"""

from vllm.v1.sample.ops import topk_topp_sampler

topk_topp_sampler.HAS_TRITON = False


class SortingSampler:
    """Adds nothing to the worker: what counts is that the worker imports this module."""

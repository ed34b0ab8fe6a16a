"""What the user of a table is told of it: where it is not of what was asked for, or is doubtful."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from warpserve.predictors.aiconfigurator.latent_prefills import lack_full_heads
from warpserve.predictors.aiconfigurator.outliers import MEASURED_ROWS
from warpserve.predictors.aiconfigurator.triton_fp8 import takes_triton
from warpserve.predictors.aiconfigurator.twins import hold_launches, were_timed_as_bf16
from warpserve.predictors.deployment import Deployment

_MEASURED = ("silicon", "mixed")
_NOISY = 0.02
"""The part of a table's times above which it is told that they stood out."""
_WITHOUT_TABLES = ("embedding", "norm", "act_gate", "_ar", "p2p")
"""Parts of names of operators that the package has formulas for, and no tables."""


def known_holes(deployment: Deployment, tables: str) -> Iterator[str]:
    """``tables``: their name, with the version of the engine that they are of."""
    kind = deployment.hardware.kind
    if not tables.endswith(f" {deployment.engine_version}"):
        yield f"tables of {tables} stand in for {deployment.engine} {deployment.engine_version}"
    if kind == "l40s" and deployment.tensor_parallel > 1:
        yield "l40s: collectives over PCIe were measured with older engines only"
    if deployment.goes_through_host:
        yield (
            f"collectives of {kind} come from a formula: those of the tables are of cards that "
            "reach each other, and in this box all goes through the host's memory (docs/gpus.md)"
        )
    if were_timed_as_bf16(deployment):
        yield (
            "experts in mxfp4 come from vllm's tables: sglang's were timed with weights made bf16 "
            "beforehand, which it does not do on this GPU"
        )
    if lack_full_heads(deployment):
        yield (
            "long prefills of latent attention come from vllm's tables: sglang's have them in "
            "latent space, as it computes others"
        )
    if takes_triton(deployment):
        yield (
            "experts in fp8 were not timed in the kernel that the engine takes: it is Triton's in "
            "bf16, times what fp8 takes of it in H200's tables of vLLM 0.19"
        )
    if kind == "a100-80":
        yield "a100-80: tables of an old engine; TTFT has been reported to be some 45 % off"


def not_measured(sources: Mapping[str, str]) -> Iterator[str]:
    """``sources``: by operator."""
    for name, source in sources.items():
        has_table = not any(part in name for part in _WITHOUT_TABLES)
        if has_table and not any(measured in source for measured in _MEASURED):
            yield f"{name} is not measured for such sizes, and comes from a formula"


def replaced(outliers: Mapping[str, int]) -> Iterator[str]:
    """``outliers``: by operator."""
    count, measured = sum(outliers.values()), len(MEASURED_ROWS) * len(outliers)
    if count > _NOISY * measured:
        yield (
            f"{count} of {measured} measured times of matrices stood out from those of the sizes "
            "beside them, and were replaced by what lies between these"
        )


def of_launches(deployment: Deployment, *, has_twin: bool) -> Iterator[str]:
    """Of matrices that were timed with their launch. ``has_twin``: SGLang's tables are there."""
    if not hold_launches(deployment):
        return
    if has_twin:
        yield (
            "matrices in fp8_block come from sglang's tables where vllm's were timed with "
            "their launch by the host"
        )
    else:
        yield (
            "matrices in fp8_block were timed with their launch by the host: each takes "
            "hundreds of us however small it is, so steps of a few tokens come out too long"
        )

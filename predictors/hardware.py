"""The GPUs of a deployment, as predictors see them."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from warpserve.predictors.predictor import PredictorError

_SESSION_HARDWARE = "WARPSERVE_HARDWARE"


@dataclass(frozen=True)
class Hardware:
    """One kind of GPU, and how GPUs of it reach each other. Rates are peaks; links one direction's.

    ``flops`` are dense, by the type that is multiplied: bf16, fp8, fp4, int8; a type that the GPU
    has no unit for is missing.
    """

    kind: str
    """Its name in the catalogue."""
    name: str
    """As its driver has it."""
    compute_capability: str
    """``9.0``, say."""
    multiprocessors: int
    l2_bytes: int
    flops: dict[str, float]
    sums_at_half_rate: bool
    """GeForce: adding up in 32 bits, of which ``flops`` tell, takes the units twice as long."""
    memory_bandwidth_bytes_per_s: float
    nvlink_bandwidth_bytes_per_s: float
    """Of all links of one GPU together; 0 without."""
    has_nvswitch: bool
    """Any GPU reaches any other over all its links; else NVLink joins pairs."""
    host_bandwidth_bytes_per_s: float
    """Over PCIe, which GPUs without NVLink between them use."""
    has_pcie_peers: bool = True
    """These reach each other's memory; else what they exchange goes through the host's."""

    @property
    def is_hopper(self) -> bool:
        return self.compute_capability.startswith("9.")

    def are_joined_by_nvlink(self, gpus: int) -> bool:
        return (self.has_nvswitch or gpus <= 2) and self.nvlink_bandwidth_bytes_per_s > 0

    def go_through_host(self, gpus: int) -> bool:
        """Whether so many GPUs exchange all by the host's memory."""
        return gpus > 1 and not self.are_joined_by_nvlink(gpus) and not self.has_pcie_peers

    def link_bandwidth_bytes_per_s(self, gpus: int) -> float:
        """Of the slowest link among so many GPUs."""
        if self.are_joined_by_nvlink(gpus):
            return self.nvlink_bandwidth_bytes_per_s
        return self.host_bandwidth_bytes_per_s


def hardware_named(name: str) -> Hardware:
    """Of which nothing else is known, to tell deployments apart: it has rates of nothing."""
    return Hardware(
        kind="",
        name=name,
        compute_capability="",
        multiprocessors=0,
        l2_bytes=0,
        flops={},
        sums_at_half_rate=False,
        memory_bandwidth_bytes_per_s=0.0,
        nvlink_bandwidth_bytes_per_s=0.0,
        has_nvswitch=False,
        host_bandwidth_bytes_per_s=0.0,
    )


def hardware_environment(hardware: Hardware) -> dict[str, str]:
    """What tells a session's members of it."""
    return {_SESSION_HARDWARE: json.dumps(asdict(hardware))}


def hardware_of_session(env: Mapping[str, str] = os.environ) -> Hardware:
    """What the session's members were told. Raises PredictorError if they were not."""
    text = env.get(_SESSION_HARDWARE)
    if text is None:
        raise PredictorError("on which GPUs? Say --gpu, such as h100-sxm:2")
    return Hardware(**json.loads(text))

"""Hardware for predictors, from the catalogue of GPUs. For warpserve's own processes only."""

from __future__ import annotations

from warpserve.cuda_shim.catalogue import Gpu, machine
from warpserve.predictors.hardware import Hardware

_FLOPS = {
    "bf16": "bf16_dense_flops",
    "fp8": "fp8_dense_flops",
    "fp4": "fp4_dense_flops",
    "int8": "int8_dense_ops",
}


def hardware_of(spec: str) -> Hardware:
    """``spec``: such as ``h100-sxm:2``. Raises CatalogueError for one that names no GPUs."""
    described = machine(spec)
    gpu = described.gpu
    has_nvlink = gpu.nvlink_link_count > 0 and described.box.nvlink != "none"
    return Hardware(
        kind=gpu.kind,
        name=gpu.name,
        compute_capability=gpu.compute_capability,
        multiprocessors=gpu.sm_count,
        l2_bytes=gpu.l2_size_bytes,
        flops=_flops(gpu),
        sums_at_half_rate=gpu.brand == "geforce",
        memory_bandwidth_bytes_per_s=gpu.memory_bandwidth_bytes_per_s,
        nvlink_bandwidth_bytes_per_s=gpu.nvlink_bandwidth_bytes_per_s if has_nvlink else 0.0,
        has_nvswitch=described.devices[0].on_nvswitch,
        host_bandwidth_bytes_per_s=gpu.host_copy_bandwidth_bytes_per_s,
        has_pcie_peers=described.has_pcie_peers,
    )


def _flops(gpu: Gpu) -> dict[str, float]:
    rates = {name: getattr(gpu, field) for name, field in _FLOPS.items()}
    return {name: rate for name, rate in rates.items() if rate is not None}

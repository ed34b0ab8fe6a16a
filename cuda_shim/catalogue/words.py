"""Values in words, for tables and documents."""

from __future__ import annotations

from warpserve.cuda_shim.catalogue.models import Gpu

_GIB = 2**30


def tera(value: float | None) -> str:
    """In units of 10^12, four digits, or a dash where there is none."""
    return "-" if value is None else f"{float(f'{value / 1e12:.4g}'):,g}"


def overview(gpu: Gpu) -> dict[str, str]:
    """The row of a kind in a table: column to cell."""
    nvlink = gpu.nvlink_bandwidth_bytes_per_s
    return {
        "kind": gpu.kind,
        "usable memory (GiB)": f"{gpu.memory_usable_bytes / _GIB:.2f}",
        "bandwidth (TB/s)": tera(gpu.memory_bandwidth_bytes_per_s),
        "BF16 (TFLOPS)": tera(gpu.bf16_dense_flops),
        "FP8": tera(gpu.fp8_dense_flops),
        "FP4": tera(gpu.fp4_dense_flops),
        "NVLink (GB/s)": f"{nvlink / 1e9:.0f}" if nvlink else "-",
        "CC": gpu.compute_capability,
        "power (W)": str(gpu.power_limit_default_w),
    }


def plain(field: str, value: object) -> str:
    """A field's value as a reader expects it: hexadecimal for PCI numbers, digits in groups."""
    if value is None:
        return "none"
    if field.startswith("pci_") and isinstance(value, int):
        return f"0x{value:08X}"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}".replace(",", " ")
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return str(value)

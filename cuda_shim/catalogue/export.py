"""What the virtual GPU library reads: a machine as lines of `key value`, for a reader without TOML.

    format 1
    device_count 8
    nvlink switch                                  what the box joins: switch, pairs or none
    nvml_architecture 9
    gpu.memory_usable_bytes 85017755648            every scalar field of the kind
    device.0.uuid GPU-…
    device.0.attribute.1 1024                      by the number of CUdevice_attribute
    device.0.properties.12 4e5649444941…           cudaDeviceProp of a CUDA major, in hexadecimal
    link.0.1 NV 18 450000000000 1                  level, NVLinks, bytes/s one way, peer to peer

Absent optional fields have no line. Booleans are 0 and 1. A value reaches to the end of its line.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations

from warpserve.cuda_shim.catalogue.attributes import NUMBERS
from warpserve.cuda_shim.catalogue.machines import Device, Machine
from warpserve.cuda_shim.catalogue.models import Gpu

FORMAT = 1

# NVML_DEVICE_ARCH_* and NVML_BRAND_* of nvml.h.
NVML_ARCHITECTURES = {"ampere": 7, "ada": 8, "hopper": 9, "blackwell": 10}
NVML_BRANDS = {"geforce": 5, "nvidia_rtx": 13, "nvidia": 14}


def lines(machine: Machine) -> Iterator[str]:
    """The machine, line by line, without line ends."""
    gpu = machine.gpu
    yield f"format {FORMAT}"
    yield f"device_count {len(machine.devices)}"
    yield f"box {machine.box.kind}"
    yield f"nvlink {machine.box.nvlink}"
    yield f"nvml_version {gpu.cuda_driver_version // 1000}.{gpu.driver_version}"
    yield f"nvml_architecture {NVML_ARCHITECTURES[gpu.architecture]}"
    yield f"nvml_brand {NVML_BRANDS[gpu.brand]}"
    yield from _gpu_lines(gpu)
    for device in machine.devices:
        yield from _device_lines(device)
    for first, second in permutations(range(len(machine.devices)), 2):
        link = machine.link(first, second)
        yield (
            f"link.{first}.{second} {link.level} {link.nvlink_count} "
            f"{link.bandwidth_bytes_per_s:.0f} {int(link.peer_to_peer)}"
        )


def _gpu_lines(gpu: Gpu) -> Iterator[str]:
    for field, value in gpu:
        if isinstance(value, bool):
            yield f"gpu.{field} {int(value)}"
        elif isinstance(value, float):
            yield f"gpu.{field} {value:.0f}"
        elif isinstance(value, int | str):
            yield f"gpu.{field} {value}"


def _device_lines(device: Device) -> Iterator[str]:
    prefix = f"device.{device.index}"
    yield f"{prefix}.uuid GPU-{device.uuid}"
    yield f"{prefix}.pci_bus_id {device.slot.pci_bus_id}"
    yield f"{prefix}.numa_node {device.slot.numa_node}"
    for name, value in device.attributes.items():
        yield f"{prefix}.attribute.{NUMBERS[name]} {value}"
    yield f"{prefix}.properties.12 {device.properties(12).hex()}"
    yield f"{prefix}.properties.13 {device.properties(13).hex()}"

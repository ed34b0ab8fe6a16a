"""What a GPU kind and a box are, once their files are read and their bases merged.

Units are in the names. Links count one direction. Compute is dense, at the boost clock.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from warpserve.cuda_shim.catalogue import attributes

Positive = Annotated[int, Field(gt=0)]
Rate = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Status = Literal["documented", "recorded", "derived", "assumed", "user"]

# Payload bandwidth of one lane, one direction, after line coding (PCI-SIG base specifications).
_PCIE_LANE_BYTES_PER_S = {3: 0.985e9, 4: 1.969e9, 5: 3.938e9, 6: 7.563e9}


class Model(BaseModel):
    """Strict and immutable: an unknown field or a value of another type is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Source(Model):
    """Where values come from. `fields` may hold shell patterns: `attributes.maximum_texture*`."""

    status: Status
    cite: Annotated[str, Field(min_length=1)]
    url: str | None = None
    fields: Annotated[list[str], Field(min_length=1)]


class Gpu(Model):
    """One kind of GPU. `attributes`: the CUDA device attributes that no other field determines."""

    kind: Annotated[str, Field(description="name of the file, and of the GPU in specifications")]
    name: Annotated[str, Field(min_length=1, max_length=95, description="product name")]
    summary: Annotated[str, Field(description="what it is, in a line")]
    aliases: list[str] = []
    boxes: Annotated[list[str], Field(min_length=1, description="usual boxes, the default first")]

    architecture: Literal["ampere", "ada", "hopper", "blackwell"]
    brand: Literal["nvidia", "nvidia_rtx", "geforce"]
    compute_capability: Annotated[str, Field(pattern=r"^\d{1,2}\.\d$")]
    pci_device_id: Annotated[int, Field(gt=0, lt=2**32, description="device << 16 | vendor")]
    pci_subsystem_id: Annotated[int, Field(gt=0, lt=2**32)]
    board_part_number: str | None = None
    vbios_version: str | None = None
    driver_version: Annotated[str, Field(pattern=r"^\d+\.\d+(\.\d+)?$")]
    cuda_driver_version: Annotated[int, Field(ge=12000, description="1000 * major + 10 * minor")]

    sm_count: Positive
    cuda_cores_per_sm: Positive
    sm_clock_max_hz: Positive
    sm_clock_idle_hz: Positive
    video_clock_max_hz: Positive
    memory_clock_max_hz: Positive
    memory_bus_width_bits: Positive
    fp64_dense_flops: Rate
    fp64_tensor_dense_flops: Rate | None = None
    fp32_dense_flops: Rate
    tf32_dense_flops: Rate
    bf16_dense_flops: Rate
    fp16_dense_flops: Rate
    fp8_dense_flops: Rate | None = None
    fp4_dense_flops: Rate | None = None
    int8_dense_ops: Rate

    memory_total_bytes: Annotated[int, Field(gt=0, description="as NVML and nvidia-smi report")]
    memory_usable_bytes: Annotated[int, Field(gt=0, description="total of cudaMemGetInfo")]
    context_memory_bytes: Annotated[int, Field(gt=0, description="taken by a process's context")]
    allocation_granularity_bytes: Annotated[int, Field(gt=0, description="of cuMemCreate")]
    bar1_total_bytes: Positive
    memory_bandwidth_bytes_per_s: Rate
    l2_size_bytes: Positive
    l2_bandwidth_bytes_per_s: Rate
    l2_persisting_max_bytes: Positive
    ecc_enabled: bool
    mig_supported: bool

    pcie_generation: Annotated[int, Field(ge=3, le=6)]
    pcie_lanes: Literal[1, 2, 4, 8, 16]
    pcie_peer_to_peer: Annotated[bool, Field(description="the driver lets peers meet over PCIe")]
    host_copy_bandwidth_bytes_per_s: Annotated[
        float, Field(gt=0, description="achieved by pinned copies, one direction")
    ]
    nvlink_generation: Annotated[int, Field(ge=1, le=6)] | None = None
    nvlink_link_count: Annotated[int, Field(ge=0, le=36)] = 0
    nvlink_link_bandwidth_bytes_per_s: Rate | None = None

    power_limit_default_w: Positive
    power_limit_min_w: Positive
    power_limit_max_w: Positive
    power_idle_w: Positive
    temperature_idle_celsius: Positive
    temperature_max_operating_celsius: Positive
    temperature_slowdown_celsius: Positive
    temperature_shutdown_celsius: Positive

    attributes: dict[str, int]
    sources: Annotated[dict[str, Source], Field(description="of each field, by its path")] = {}

    @property
    def compute_capability_pair(self) -> tuple[int, int]:
        """(major, minor)."""
        major, minor = self.compute_capability.split(".")
        return int(major), int(minor)

    @property
    def memory_reserved_bytes(self) -> int:
        """What driver and firmware keep: NVML's `reserved`."""
        return self.memory_total_bytes - self.memory_usable_bytes

    @property
    def pcie_bandwidth_bytes_per_s(self) -> float:
        """Of the slot, one direction, after line coding."""
        return _PCIE_LANE_BYTES_PER_S[self.pcie_generation] * self.pcie_lanes

    @property
    def nvlink_bandwidth_bytes_per_s(self) -> float:
        """Of all links together, one direction; 0 without NVLink."""
        return self.nvlink_link_count * (self.nvlink_link_bandwidth_bytes_per_s or 0.0)

    @model_validator(mode="after")
    def _consistent(self) -> Gpu:
        if self.memory_usable_bytes > self.memory_total_bytes:
            raise ValueError("memory_usable_bytes is larger than memory_total_bytes")
        if not self.power_limit_min_w <= self.power_limit_default_w <= self.power_limit_max_w:
            raise ValueError("power limits must satisfy min <= default <= max")
        if (self.nvlink_link_count > 0) != (self.nvlink_link_bandwidth_bytes_per_s is not None):
            raise ValueError("nvlink_link_count and nvlink_link_bandwidth_bytes_per_s go together")
        if self.nvlink_link_count > 0 and self.nvlink_generation is None:
            raise ValueError("nvlink_generation is missing")
        attributes.check_catalogue_attributes(self.attributes)
        return self


class Slot(Model):
    """A place for a GPU in a box."""

    pci_bus_id: Annotated[str, Field(pattern=r"^[0-9A-F]{4}:[0-9A-F]{2}:[0-9A-F]{2}\.[0-7]$")]
    numa_node: Annotated[int, Field(ge=0)]
    pcie_switch: Annotated[int, Field(ge=0, description="slots with the same number share one")]

    @property
    def pci_numbers(self) -> tuple[int, int, int]:
        """(domain, bus, device)."""
        domain, bus, rest = self.pci_bus_id.split(":")
        return int(domain, 16), int(bus, 16), int(rest.split(".")[0], 16)


class Box(Model):
    """A usual machine: where its GPUs sit and how they are joined."""

    kind: str
    summary: str
    nvlink: Annotated[
        Literal["none", "switch", "pairs"],
        Field(description="all to all over NVSwitch, or slots 2n and 2n+1 bridged"),
    ]
    pcie_peer_to_peer: Annotated[
        bool, Field(description="cards reach each other over PCIe, where their driver has it so")
    ] = True
    slots: Annotated[list[Slot], Field(min_length=1)]
    source: Annotated[list[Source], Field(min_length=1)]

    @model_validator(mode="after")
    def _consistent(self) -> Box:
        ids = [slot.pci_bus_id for slot in self.slots]
        if len(set(ids)) != len(ids):
            raise ValueError("two slots have the same pci_bus_id")
        if self.nvlink == "pairs" and len(ids) % 2:
            raise ValueError("nvlink = 'pairs' needs an even number of slots")
        return self

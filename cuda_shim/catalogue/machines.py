"""A specification made whole: "h100-sxm:8" as eight devices in a box, with all that they answer."""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from warpserve.cuda_shim.catalogue import attributes, properties
from warpserve.cuda_shim.catalogue.attributes import Placement
from warpserve.cuda_shim.catalogue.errors import SpecError
from warpserve.cuda_shim.catalogue.files import Catalogue
from warpserve.cuda_shim.catalogue.models import Box, Gpu, Slot

_SPEC = re.compile(r"(?P<kind>[\w.-]+)(?::(?P<count>\d+))?(?:@(?P<box>[\w.-]+))?")
_UUIDS = uuid.uuid5(uuid.NAMESPACE_URL, "warpserve:virtual-gpu")

# How two GPUs reach each other, nearest first; the words of `nvidia-smi topo -m`.
Level = Literal["NV", "PIX", "NODE", "SYS"]


@dataclass(frozen=True)
class GpuSpec:
    """What a user asks for: so many of a kind, perhaps in a named box."""

    kind: str
    count: int = 1
    box: str | None = None

    @classmethod
    def parse(cls, text: str) -> GpuSpec:
        """Reads `kind[:count][@box]`, e.g. "l4", "h100-sxm:8", "a100-pcie-80:2@pcie-nvlink-pairs".

        Raises SpecError with the form and an example.
        """
        match = _SPEC.fullmatch(text.strip())
        if match is None:
            raise SpecError(
                f"{text!r} is not a GPU specification. Write kind[:count][@box], e.g. 'h100-sxm:8'."
            )
        count = int(match["count"] or 1)
        if count == 0:
            raise SpecError(f"{text!r} asks for no GPU. Write a count of 1 or more.")
        return cls(match["kind"], count, match["box"])

    def __str__(self) -> str:
        return f"{self.kind}:{self.count}" + (f"@{self.box}" if self.box else "")


@dataclass(frozen=True)
class Link:
    """The way from one GPU to another. `bandwidth_bytes_per_s` is one direction's."""

    level: Level
    nvlink_count: int
    bandwidth_bytes_per_s: float
    peer_to_peer: bool


@dataclass(frozen=True)
class Device:
    """One GPU in its slot."""

    index: int
    gpu: Gpu
    slot: Slot
    on_nvswitch: bool

    @property
    def uuid(self) -> uuid.UUID:
        """The same for the same kind and slot on every machine, so that results repeat."""
        return uuid.uuid5(_UUIDS, f"{self.gpu.kind} {self.slot.pci_bus_id}")

    @cached_property
    def attributes(self) -> dict[str, int]:
        """Every CUDA device attribute, by name."""
        domain, bus, device = self.slot.pci_numbers
        place = Placement(self.index, domain, bus, device, self.slot.numa_node, self.on_nvswitch)
        return attributes.values(self.gpu, place)

    def properties(self, major: properties.CudaMajor) -> bytes:
        """The cudaDeviceProp structure of a CUDA major."""
        return properties.pack(
            major,
            name=self.gpu.name,
            device_uuid=self.uuid,
            total_global_mem_bytes=self.gpu.memory_usable_bytes,
            attributes=self.attributes,
        )


@dataclass(frozen=True)
class Machine:
    """Devices of one kind in the first slots of a box."""

    box: Box
    devices: tuple[Device, ...]

    @property
    def gpu(self) -> Gpu:
        """The kind of all devices."""
        return self.devices[0].gpu

    @property
    def has_pcie_peers(self) -> bool:
        """Whether those that no NVLink joins reach each other's memory."""
        return self.gpu.pcie_peer_to_peer and self.box.pcie_peer_to_peer

    def link(self, first: int, second: int) -> Link:
        """How two different devices reach each other."""
        if first == second:
            raise ValueError("a device has no link to itself")
        gpu, here, there = self.gpu, self.devices[first].slot, self.devices[second].slot
        if self._joined_by_nvlink(first, second):
            bandwidth = gpu.nvlink_bandwidth_bytes_per_s
            return Link("NV", gpu.nvlink_link_count, bandwidth, peer_to_peer=True)
        level: Level = "SYS"
        if here.pcie_switch == there.pcie_switch:
            level = "PIX"
        elif here.numa_node == there.numa_node:
            level = "NODE"
        return Link(level, 0, gpu.host_copy_bandwidth_bytes_per_s, self.has_pcie_peers)

    def _joined_by_nvlink(self, first: int, second: int) -> bool:
        if self.gpu.nvlink_link_count == 0:
            return False
        return self.box.nvlink == "switch" or (
            self.box.nvlink == "pairs" and first // 2 == second // 2
        )


def machine(spec: GpuSpec | str, catalogue: Catalogue | None = None) -> Machine:
    """The machine that a specification asks for.

    Raises SpecError if the box has too few slots, UnknownNameError for an unknown kind or box.
    """
    wanted = GpuSpec.parse(spec) if isinstance(spec, str) else spec
    known = Catalogue() if catalogue is None else catalogue
    gpu = known.gpu(wanted.kind)
    box = known.box(wanted.box) if wanted.box else _default_box(gpu, wanted.count, known)
    if wanted.count > len(box.slots):
        raise SpecError(
            f"{wanted}: box {box.kind!r} has {len(box.slots)} slots. Ask for fewer GPUs, name "
            "another box with '@', or describe one in boxes/NAME.toml beside your GPU files."
        )
    on_nvswitch = box.nvlink == "switch" and gpu.nvlink_link_count > 0
    devices = (
        Device(index, gpu, slot, on_nvswitch)
        for index, slot in enumerate(box.slots[: wanted.count])
    )
    return Machine(box, tuple(devices))


def _default_box(gpu: Gpu, count: int, catalogue: Catalogue) -> Box:
    """The first of the kind's usual boxes that is large enough, or its first."""
    boxes = [catalogue.box(name) for name in gpu.boxes]
    return next((box for box in boxes if len(box.slots) >= count), boxes[0])

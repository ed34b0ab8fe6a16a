"""GPU kinds and the boxes that hold them, described in readable files.

    gpu = Catalogue().gpu("h100-sxm")          # gpu.bf16_dense_flops, gpu.memory_usable_bytes, …
    box = machine("h100-sxm:8")                # box.devices[0].attributes, box.link(0, 1), …

Users add kinds in $WARPSERVE_GPU_PATH or ~/.config/warpserve/gpus.
"""

from warpserve.cuda_shim.catalogue.errors import (
    CatalogueError,
    FileError,
    SpecError,
    UnknownNameError,
)
from warpserve.cuda_shim.catalogue.files import Catalogue
from warpserve.cuda_shim.catalogue.machines import Device, GpuSpec, Link, Machine, machine
from warpserve.cuda_shim.catalogue.models import Box, Gpu, Slot, Source

__all__ = [
    "Box",
    "Catalogue",
    "CatalogueError",
    "Device",
    "FileError",
    "Gpu",
    "GpuSpec",
    "Link",
    "Machine",
    "Slot",
    "Source",
    "SpecError",
    "UnknownNameError",
    "machine",
]

"""Every CUdevice_attribute, and where its value for a GPU in a slot comes from.

A name is the enumerator's without `CU_DEVICE_ATTRIBUTE_`, in lower case; `cudaDevAttr…` has the
same numbers. Most values stand in the files (`[attributes]`, merged along the bases); the rest
follow from other fields of the GPU, its slot and its box, and may not be written twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from warpserve.cuda_shim.catalogue.errors import did_you_mean

if TYPE_CHECKING:
    from warpserve.cuda_shim.catalogue.models import Gpu


@dataclass(frozen=True)
class Placement:
    """Where a GPU sits: all that its attributes depend on besides its kind."""

    index: int
    pci_domain: int
    pci_bus: int
    pci_device: int
    numa_node: int
    on_nvswitch: bool


# In the order of their numbers, which start at 1 and have no gaps (cuda.h of CUDA 12.8 to 13.5).
NAMES: tuple[str, ...] = (
    "max_threads_per_block",
    "max_block_dim_x",
    "max_block_dim_y",
    "max_block_dim_z",
    "max_grid_dim_x",
    "max_grid_dim_y",
    "max_grid_dim_z",
    "max_shared_memory_per_block",
    "total_constant_memory",
    "warp_size",
    "max_pitch",
    "max_registers_per_block",
    "clock_rate",
    "texture_alignment",
    "gpu_overlap",
    "multiprocessor_count",
    "kernel_exec_timeout",
    "integrated",
    "can_map_host_memory",
    "compute_mode",
    "maximum_texture1d_width",
    "maximum_texture2d_width",
    "maximum_texture2d_height",
    "maximum_texture3d_width",
    "maximum_texture3d_height",
    "maximum_texture3d_depth",
    "maximum_texture2d_layered_width",
    "maximum_texture2d_layered_height",
    "maximum_texture2d_layered_layers",
    "surface_alignment",
    "concurrent_kernels",
    "ecc_enabled",
    "pci_bus_id",
    "pci_device_id",
    "tcc_driver",
    "memory_clock_rate",
    "global_memory_bus_width",
    "l2_cache_size",
    "max_threads_per_multiprocessor",
    "async_engine_count",
    "unified_addressing",
    "maximum_texture1d_layered_width",
    "maximum_texture1d_layered_layers",
    "can_tex2d_gather",
    "maximum_texture2d_gather_width",
    "maximum_texture2d_gather_height",
    "maximum_texture3d_width_alternate",
    "maximum_texture3d_height_alternate",
    "maximum_texture3d_depth_alternate",
    "pci_domain_id",
    "texture_pitch_alignment",
    "maximum_texturecubemap_width",
    "maximum_texturecubemap_layered_width",
    "maximum_texturecubemap_layered_layers",
    "maximum_surface1d_width",
    "maximum_surface2d_width",
    "maximum_surface2d_height",
    "maximum_surface3d_width",
    "maximum_surface3d_height",
    "maximum_surface3d_depth",
    "maximum_surface1d_layered_width",
    "maximum_surface1d_layered_layers",
    "maximum_surface2d_layered_width",
    "maximum_surface2d_layered_height",
    "maximum_surface2d_layered_layers",
    "maximum_surfacecubemap_width",
    "maximum_surfacecubemap_layered_width",
    "maximum_surfacecubemap_layered_layers",
    "maximum_texture1d_linear_width",
    "maximum_texture2d_linear_width",
    "maximum_texture2d_linear_height",
    "maximum_texture2d_linear_pitch",
    "maximum_texture2d_mipmapped_width",
    "maximum_texture2d_mipmapped_height",
    "compute_capability_major",
    "compute_capability_minor",
    "maximum_texture1d_mipmapped_width",
    "stream_priorities_supported",
    "global_l1_cache_supported",
    "local_l1_cache_supported",
    "max_shared_memory_per_multiprocessor",
    "max_registers_per_multiprocessor",
    "managed_memory",
    "multi_gpu_board",
    "multi_gpu_board_group_id",
    "host_native_atomic_supported",
    "single_to_double_precision_perf_ratio",
    "pageable_memory_access",
    "concurrent_managed_access",
    "compute_preemption_supported",
    "can_use_host_pointer_for_registered_mem",
    "can_use_stream_mem_ops_v1",
    "can_use_64_bit_stream_mem_ops_v1",
    "can_use_stream_wait_value_nor_v1",
    "cooperative_launch",
    "cooperative_multi_device_launch",
    "max_shared_memory_per_block_optin",
    "can_flush_remote_writes",
    "host_register_supported",
    "pageable_memory_access_uses_host_page_tables",
    "direct_managed_mem_access_from_host",
    "virtual_memory_management_supported",
    "handle_type_posix_file_descriptor_supported",
    "handle_type_win32_handle_supported",
    "handle_type_win32_kmt_handle_supported",
    "max_blocks_per_multiprocessor",
    "generic_compression_supported",
    "max_persisting_l2_cache_size",
    "max_access_policy_window_size",
    "gpu_direct_rdma_with_cuda_vmm_supported",
    "reserved_shared_memory_per_block",
    "sparse_cuda_array_supported",
    "read_only_host_register_supported",
    "timeline_semaphore_interop_supported",
    "memory_pools_supported",
    "gpu_direct_rdma_supported",
    "gpu_direct_rdma_flush_writes_options",
    "gpu_direct_rdma_writes_ordering",
    "mempool_supported_handle_types",
    "cluster_launch",
    "deferred_mapping_cuda_array_supported",
    "can_use_64_bit_stream_mem_ops",
    "can_use_stream_wait_value_nor",
    "dma_buf_supported",
    "ipc_event_supported",
    "mem_sync_domain_count",
    "tensor_map_access_supported",
    "handle_type_fabric_supported",
    "unified_function_pointers",
    "numa_config",
    "numa_id",
    "multicast_supported",
    "mps_enabled",
    "host_numa_id",
    "d3d12_cig_supported",
    "mem_decompress_algorithm_mask",
    "mem_decompress_maximum_length",
    "vulkan_cig_supported",
    "gpu_pci_device_id",
    "gpu_pci_subsystem_id",
    "host_numa_virtual_memory_management_supported",
    "host_numa_memory_pools_supported",
    "host_numa_multinode_ipc_supported",
    "host_memory_pools_supported",
    "host_virtual_memory_management_supported",
    "host_alloc_dma_buf_supported",
    "only_partial_host_native_atomic_supported",
    "atomic_reduction_supported",
    "locality_domain_count",
    "max_oversized_shared_memory_per_block",
    "d3d12_cig_streams_supported",
    "dma_buf_mmap_supported",
    "logical_endpoint_unicast_supported",
    "logical_endpoint_multicast_supported",
    "logical_endpoint_counted_ops_supported",
    "logical_endpoint_unicast_access_on_owner_device_supported",
    "locality_domain_multiprocessor_count",
    "logical_endpoint_supported_handle_types",
    "vulkan_cig_streams_supported",
    "tensor_map_large_tensor_min_size",
    "gpu_direct_rdma_with_localized_memory_supported",
)
NUMBERS: Mapping[str, int] = {name: number for number, name in enumerate(NAMES, start=1)}

_HZ_PER_KHZ = 1000

# Attributes that other fields determine.
DERIVED: Mapping[str, Callable[[Gpu, Placement], int]] = {
    "clock_rate": lambda gpu, _: gpu.sm_clock_max_hz // _HZ_PER_KHZ,
    "multiprocessor_count": lambda gpu, _: gpu.sm_count,
    "ecc_enabled": lambda gpu, _: int(gpu.ecc_enabled),
    "pci_bus_id": lambda _, place: place.pci_bus,
    "pci_device_id": lambda _, place: place.pci_device,
    "pci_domain_id": lambda _, place: place.pci_domain,
    "memory_clock_rate": lambda gpu, _: gpu.memory_clock_max_hz // _HZ_PER_KHZ,
    "global_memory_bus_width": lambda gpu, _: gpu.memory_bus_width_bits,
    "l2_cache_size": lambda gpu, _: gpu.l2_size_bytes,
    "compute_capability_major": lambda gpu, _: gpu.compute_capability_pair[0],
    "compute_capability_minor": lambda gpu, _: gpu.compute_capability_pair[1],
    "multi_gpu_board_group_id": lambda _, place: place.index,
    "max_persisting_l2_cache_size": lambda gpu, _: gpu.l2_persisting_max_bytes,
    "multicast_supported": lambda gpu, place: int(
        place.on_nvswitch and gpu.compute_capability_pair >= (9, 0)
    ),
    "host_numa_id": lambda _, place: place.numa_node,
    "gpu_pci_device_id": lambda gpu, _: gpu.pci_device_id,
    "gpu_pci_subsystem_id": lambda gpu, _: gpu.pci_subsystem_id,
    "locality_domain_multiprocessor_count": lambda gpu, _: (
        gpu.sm_count // gpu.attributes["locality_domain_count"]
    ),
}


def check_catalogue_attributes(values: Mapping[str, int]) -> None:
    """Raises ValueError unless `values` are exactly the attributes that nothing else determines."""
    for name in values:
        if name in DERIVED:
            raise ValueError(f"attributes.{name} follows from other fields; leave it out")
        if name not in NUMBERS:
            raise ValueError(
                f"attributes.{name} is not an attribute of CUDA.{did_you_mean(name, NAMES)}"
            )
    missing = [name for name in NAMES if name not in values and name not in DERIVED]
    if missing:
        raise ValueError(f"attributes are missing: {', '.join(missing)}")


def values(gpu: Gpu, place: Placement) -> dict[str, int]:
    """All attributes of a GPU in its place, in the order of their numbers."""
    return {
        name: DERIVED[name](gpu, place) if name in DERIVED else gpu.attributes[name]
        for name in NAMES
    }

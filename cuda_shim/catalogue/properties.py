"""cudaDeviceProp, of CUDA 12 and of CUDA 13, as the bytes that cudaGetDeviceProperties writes.

Both structures are one list: CUDA 13 dropped some members and gave names to reserved ones. Numbers
are those of the device attributes; only name, uuid, luid and the memory size are no attributes.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

CudaMajor = Literal[12, 13]


@dataclass(frozen=True)
class Member:
    """Its format in `struct` terms, the attributes that fill it, the CUDA majors that have it."""

    name: str
    format: str
    attributes: tuple[str, ...] = ()
    majors: tuple[CudaMajor, ...] = (12, 13)


def _int(name: str, *attributes: str, only: CudaMajor | None = None) -> Member:
    return Member(name, "i" * len(attributes), attributes, (only,) if only else (12, 13))


def _unsigned(name: str, attribute: str, only: CudaMajor | None = None) -> Member:
    return Member(name, "I", (attribute,), (only,) if only else (12, 13))


def _size(name: str, attribute: str) -> Member:
    return Member(name, "N", (attribute,))


def _axes(prefix: str, *axes: str, suffix: str = "") -> tuple[str, ...]:
    return tuple(f"{prefix}_{axis}{suffix}" for axis in axes)


_TEX, _SURF = "maximum_texture", "maximum_surface"

MEMBERS: tuple[Member, ...] = (
    Member("name", "256s"),
    Member("uuid", "16s"),
    Member("luid", "8s"),
    Member("luidDeviceNodeMask", "I"),
    Member("totalGlobalMem", "N"),
    _size("sharedMemPerBlock", "max_shared_memory_per_block"),
    _int("regsPerBlock", "max_registers_per_block"),
    _int("warpSize", "warp_size"),
    _size("memPitch", "max_pitch"),
    _int("maxThreadsPerBlock", "max_threads_per_block"),
    _int("maxThreadsDim", *_axes("max_block_dim", "x", "y", "z")),
    _int("maxGridSize", *_axes("max_grid_dim", "x", "y", "z")),
    _int("clockRate", "clock_rate", only=12),
    _size("totalConstMem", "total_constant_memory"),
    _int("major", "compute_capability_major"),
    _int("minor", "compute_capability_minor"),
    _size("textureAlignment", "texture_alignment"),
    _size("texturePitchAlignment", "texture_pitch_alignment"),
    _int("deviceOverlap", "gpu_overlap", only=12),
    _int("multiProcessorCount", "multiprocessor_count"),
    _int("kernelExecTimeoutEnabled", "kernel_exec_timeout", only=12),
    _int("integrated", "integrated"),
    _int("canMapHostMemory", "can_map_host_memory"),
    _int("computeMode", "compute_mode", only=12),
    _int("maxTexture1D", f"{_TEX}1d_width"),
    _int("maxTexture1DMipmap", f"{_TEX}1d_mipmapped_width"),
    _int("maxTexture1DLinear", f"{_TEX}1d_linear_width", only=12),
    _int("maxTexture2D", *_axes(f"{_TEX}2d", "width", "height")),
    _int("maxTexture2DMipmap", *_axes(f"{_TEX}2d_mipmapped", "width", "height")),
    _int("maxTexture2DLinear", *_axes(f"{_TEX}2d_linear", "width", "height", "pitch")),
    _int("maxTexture2DGather", *_axes(f"{_TEX}2d_gather", "width", "height")),
    _int("maxTexture3D", *_axes(f"{_TEX}3d", "width", "height", "depth")),
    _int("maxTexture3DAlt", *_axes(f"{_TEX}3d", "width", "height", "depth", suffix="_alternate")),
    _int("maxTextureCubemap", f"{_TEX}cubemap_width"),
    _int("maxTexture1DLayered", *_axes(f"{_TEX}1d_layered", "width", "layers")),
    _int("maxTexture2DLayered", *_axes(f"{_TEX}2d_layered", "width", "height", "layers")),
    _int("maxTextureCubemapLayered", *_axes(f"{_TEX}cubemap_layered", "width", "layers")),
    _int("maxSurface1D", f"{_SURF}1d_width"),
    _int("maxSurface2D", *_axes(f"{_SURF}2d", "width", "height")),
    _int("maxSurface3D", *_axes(f"{_SURF}3d", "width", "height", "depth")),
    _int("maxSurface1DLayered", *_axes(f"{_SURF}1d_layered", "width", "layers")),
    _int("maxSurface2DLayered", *_axes(f"{_SURF}2d_layered", "width", "height", "layers")),
    _int("maxSurfaceCubemap", f"{_SURF}cubemap_width"),
    _int("maxSurfaceCubemapLayered", *_axes(f"{_SURF}cubemap_layered", "width", "layers")),
    _size("surfaceAlignment", "surface_alignment"),
    _int("concurrentKernels", "concurrent_kernels"),
    _int("ECCEnabled", "ecc_enabled"),
    _int("pciBusID", "pci_bus_id"),
    _int("pciDeviceID", "pci_device_id"),
    _int("pciDomainID", "pci_domain_id"),
    _int("tccDriver", "tcc_driver"),
    _int("asyncEngineCount", "async_engine_count"),
    _int("unifiedAddressing", "unified_addressing"),
    _int("memoryClockRate", "memory_clock_rate", only=12),
    _int("memoryBusWidth", "global_memory_bus_width"),
    _int("l2CacheSize", "l2_cache_size"),
    _int("persistingL2CacheMaxSize", "max_persisting_l2_cache_size"),
    _int("maxThreadsPerMultiProcessor", "max_threads_per_multiprocessor"),
    _int("streamPrioritiesSupported", "stream_priorities_supported"),
    _int("globalL1CacheSupported", "global_l1_cache_supported"),
    _int("localL1CacheSupported", "local_l1_cache_supported"),
    _size("sharedMemPerMultiprocessor", "max_shared_memory_per_multiprocessor"),
    _int("regsPerMultiprocessor", "max_registers_per_multiprocessor"),
    _int("managedMemory", "managed_memory"),
    _int("isMultiGpuBoard", "multi_gpu_board"),
    _int("multiGpuBoardGroupID", "multi_gpu_board_group_id"),
    _int("hostNativeAtomicSupported", "host_native_atomic_supported"),
    _int("singleToDoublePrecisionPerfRatio", "single_to_double_precision_perf_ratio", only=12),
    _int("pageableMemoryAccess", "pageable_memory_access"),
    _int("concurrentManagedAccess", "concurrent_managed_access"),
    _int("computePreemptionSupported", "compute_preemption_supported"),
    _int("canUseHostPointerForRegisteredMem", "can_use_host_pointer_for_registered_mem"),
    _int("cooperativeLaunch", "cooperative_launch"),
    _int("cooperativeMultiDeviceLaunch", "cooperative_multi_device_launch", only=12),
    _size("sharedMemPerBlockOptin", "max_shared_memory_per_block_optin"),
    _int("pageableMemoryAccessUsesHostPageTables", "pageable_memory_access_uses_host_page_tables"),
    _int("directManagedMemAccessFromHost", "direct_managed_mem_access_from_host"),
    _int("maxBlocksPerMultiProcessor", "max_blocks_per_multiprocessor"),
    _int("accessPolicyMaxWindowSize", "max_access_policy_window_size"),
    _size("reservedSharedMemPerBlock", "reserved_shared_memory_per_block"),
    _int("hostRegisterSupported", "host_register_supported"),
    _int("sparseCudaArraySupported", "sparse_cuda_array_supported"),
    _int("hostRegisterReadOnlySupported", "read_only_host_register_supported"),
    _int("timelineSemaphoreInteropSupported", "timeline_semaphore_interop_supported"),
    _int("memoryPoolsSupported", "memory_pools_supported"),
    _int("gpuDirectRDMASupported", "gpu_direct_rdma_supported"),
    _unsigned("gpuDirectRDMAFlushWritesOptions", "gpu_direct_rdma_flush_writes_options"),
    _int("gpuDirectRDMAWritesOrdering", "gpu_direct_rdma_writes_ordering"),
    _unsigned("memoryPoolSupportedHandleTypes", "mempool_supported_handle_types"),
    _int("deferredMappingCudaArraySupported", "deferred_mapping_cuda_array_supported"),
    _int("ipcEventSupported", "ipc_event_supported"),
    _int("clusterLaunch", "cluster_launch"),
    _int("unifiedFunctionPointers", "unified_function_pointers"),
    _int("deviceNumaConfig", "numa_config", only=13),
    _int("deviceNumaId", "numa_id", only=13),
    _int("mpsEnabled", "mps_enabled", only=13),
    _int("hostNumaId", "host_numa_id", only=13),
    _unsigned("gpuPciDeviceID", "gpu_pci_device_id", only=13),
    _unsigned("gpuPciSubsystemID", "gpu_pci_subsystem_id", only=13),
    _int("hostNumaMultinodeIpcSupported", "host_numa_multinode_ipc_supported", only=13),
)

# `int reserved[]` at the end.
RESERVED_INTS: Mapping[CudaMajor, int] = {12: 63, 13: 56}


def members(major: CudaMajor) -> Iterator[Member]:
    """The members of one major's structure in their order, without `reserved`."""
    return (member for member in MEMBERS if major in member.majors)


def layout(major: CudaMajor) -> str:
    """The structure as a format of the `struct` module, native alignment, padded to its size."""
    fields = "".join(member.format for member in members(major))
    return f"@{fields}{RESERVED_INTS[major]}i0N"


def pack(
    major: CudaMajor,
    *,
    name: str,
    device_uuid: uuid.UUID,
    total_global_mem_bytes: int,
    attributes: Mapping[str, int],
) -> bytes:
    """The structure's bytes. `attributes` are all of the device's, by name."""
    plain: dict[str, bytes | int] = {
        "name": name.encode(),
        "uuid": device_uuid.bytes,
        "luid": bytes(8),  # meaningful on Windows only
        "luidDeviceNodeMask": 0,
        "totalGlobalMem": total_global_mem_bytes,
    }
    values: list[bytes | int] = []
    for member in members(major):
        if member.attributes:
            values.extend(attributes[attribute] for attribute in member.attributes)
        else:
            values.append(plain[member.name])
    return struct.pack(layout(major), *values, *([0] * RESERVED_INTS[major]))

#include "cuda_shim/entry/memory.hpp"

#include <bit>

#include "cuda_shim/entry/runtime.hpp"
#include "cuda_shim/entry/streams.hpp"

using namespace warpserve::gpu;

namespace {

constexpr std::uint32_t kManagedAttachFlags = 0x3;
constexpr std::uint32_t kHostAllocFlags = 0x7;
constexpr std::uint32_t kHostRegisterFlags = 0x1F;

Error allocate(void** out, std::uint64_t bytes) {
  require(out != nullptr);
  refuse_in_capture();
  *out = pointer(value_of(process_memory().allocate(current_device().physical, bytes)));
  return Error::kSuccess;
}

Error allocate_pinned(void** out, std::uint64_t bytes, std::uint32_t flags) {
  require(out != nullptr && (flags & ~kHostAllocFlags) == 0);
  refuse_in_capture();
  *out = bytes == 0 ? nullptr
                    : pointer(value_of(process_memory().host().allocate(current_device().physical,
                                                                        bytes, flags)));
  return Error::kSuccess;
}

// cudaPitchedPtr and cudaExtent.
struct PitchedPointer {
  void* address;
  std::uint64_t pitch_bytes, width_bytes, height;
};
struct Extent {
  std::uint64_t width_bytes, height, depth;
};

}  // namespace

std::uint32_t cudaMalloc(void** out, std::uint64_t bytes) {
  return runtime_call([&] { return allocate(out, bytes); });
}

std::uint32_t cudaFree(void* address) {
  return runtime_call([&] {
    current_device();
    free_memory(address_of(address));
  });
}

std::uint32_t cudaMallocHost(void** out, std::uint64_t bytes) {
  return runtime_call([&] { return allocate_pinned(out, bytes, 0); });
}

std::uint32_t cudaHostAlloc(void** out, std::uint64_t bytes, std::uint32_t flags) {
  return runtime_call([&] { return allocate_pinned(out, bytes, flags); });
}

std::uint32_t cudaFreeHost(void* address) {
  return runtime_call([&] { free_pinned(address_of(address)); });
}

std::uint32_t cudaHostRegister(void* address, std::uint64_t bytes, std::uint32_t flags) {
  return runtime_call([&] {
    require(address != nullptr && bytes > 0 && (flags & ~kHostRegisterFlags) == 0);
    expect(process_memory().host().register_range(current_device().physical, address_of(address),
                                                  bytes, flags));
  });
}

std::uint32_t cudaHostUnregister(void* address) {
  return runtime_call([&] {
    require(address != nullptr);
    expect(process_memory().host().unregister(address_of(address)));
  });
}

std::uint32_t cudaHostGetDevicePointer(void** device_pointer, void* host, std::uint32_t flags) {
  return runtime_call([&] {
    require(device_pointer != nullptr && flags == 0);
    const PointerInfo info = value_of(process_memory().query(address_of(host)));
    require(info.kind == MemoryKind::kPinned || info.kind == MemoryKind::kRegistered);
    *device_pointer = host;
  });
}

std::uint32_t cudaHostGetFlags(std::uint32_t* flags, void* host) {
  return runtime_call([&] {
    require(flags != nullptr);
    const PointerInfo info = value_of(process_memory().query(address_of(host)));
    require(info.kind == MemoryKind::kPinned || info.kind == MemoryKind::kRegistered);
    *flags = info.flags;
  });
}

std::uint32_t cudaMallocManaged(void** out, std::uint64_t bytes, std::uint32_t flags) {
  return runtime_call([&] {
    require(out != nullptr && bytes > 0 && flags != 0 && (flags & ~kManagedAttachFlags) == 0);
    refuse_in_capture();
    *out = pointer(value_of(
        process_memory().host().allocate_managed(current_device().physical, bytes, flags)));
  });
}

std::uint32_t cudaMallocPitch(void** out, std::uint64_t* pitch_bytes, std::uint64_t width_bytes,
                              std::uint64_t height) {
  return runtime_call([&] {
    require(out != nullptr && pitch_bytes != nullptr);
    refuse_in_capture();
    const PitchedAllocation made =
        value_of(process_memory().allocate_pitched(current_device().physical, width_bytes, height));
    *out = pointer(made.address);
    *pitch_bytes = made.pitch_bytes;
  });
}

std::uint32_t cudaMalloc3D(void* out, warpserve::cuda_shim::abi::cudaExtent extent) {
  return runtime_call([&] {
    require(out != nullptr);
    refuse_in_capture();
    const auto size = std::bit_cast<Extent>(extent);
    const PitchedAllocation made = value_of(process_memory().allocate_pitched(
        current_device().physical, size.width_bytes, size.height * size.depth));
    *static_cast<PitchedPointer*>(out) = {pointer(made.address), made.pitch_bytes, size.width_bytes,
                                          size.height};
  });
}

std::uint32_t cudaMemGetInfo(std::uint64_t* free_bytes, std::uint64_t* total_bytes) {
  return runtime_call([&] {
    require(free_bytes != nullptr && total_bytes != nullptr);
    const MemoryInfo info = value_of(process_memory().info(current_device().physical));
    *free_bytes = info.free_bytes;
    *total_bytes = info.total_bytes;
  });
}

#if WARPSERVE_CUDA_MAJOR == 12
RUNTIME_STREAM_CALL(cudaMemPrefetchAsync, cudaMemPrefetchAsync_ptsz,
                    (const void* address, std::uint64_t bytes, std::int32_t, void* stream),
                    return prefetch(*stream_of(stream, kDefaultStream), address_of(address),
                                    bytes);)

RUNTIME_STREAM_CALL(cudaMemPrefetchAsync_v2, cudaMemPrefetchAsync_v2_ptsz,
                    (const void* address, std::uint64_t bytes,
                     warpserve::cuda_shim::abi::cudaMemLocation, std::uint32_t, void* stream),
                    return prefetch(*stream_of(stream, kDefaultStream), address_of(address),
                                    bytes);)

#else
RUNTIME_STREAM_CALL(cudaMemPrefetchAsync, cudaMemPrefetchAsync_ptsz,
                    (const void* address, std::uint64_t bytes,
                     warpserve::cuda_shim::abi::cudaMemLocation, std::uint32_t, void* stream),
                    return prefetch(*stream_of(stream, kDefaultStream), address_of(address),
                                    bytes);)

#endif
